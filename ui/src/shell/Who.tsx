/** Who looks, by the key that was given, and the way out. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { remove } from "../api/client.ts";
import { session } from "../api/queries.ts";
import { Icon } from "../parts/Icon.tsx";

export function Who() {
  const { data } = useQuery(session);
  const queries = useQueryClient();
  if (!data?.who) return null;
  const leave = async () => {
    await remove("session");
    await queries.resetQueries();
  };
  return (
    <div className="who">
      <Icon name="key" size={14} />
      <span className="cut" title={data.who}>
        {data.who}
      </span>
      <span className="faint">{data.role}</span>
      <button type="button" className="button bare small push" onClick={leave}>
        Log out
      </button>
    </div>
  );
}
