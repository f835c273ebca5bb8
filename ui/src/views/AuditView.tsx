/** Who changed what, and when. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { get } from "../api/client.ts";
import type { Change } from "../api/types.ts";
import { Empty, Loading, Page, Wrong } from "../parts/Page.tsx";
import { Sheet } from "../parts/Sheet";
import { StateIcon } from "../parts/State.tsx";
import { Moment } from "../parts/Time.tsx";

const RUN = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function AuditView() {
  const { data, error, refetch, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ["audit"],
    queryFn: ({ signal, pageParam }) =>
      get<{ changes: Change[]; next?: string | null }>("audit", { after: pageParam }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    meta: { live: true },
  });
  if (!data && !error) return <Loading />;
  const changes = data?.pages.flatMap((page) => page.changes) ?? [];
  return (
    <Page title="Audit" sub="who changed what">
      {error && <Wrong why={error} again={() => void refetch()} />}
      {!error && changes.length === 0 && (
        <div className="card">
          <Empty icon="audit" title="Nobody has changed anything yet">
            <p>
              Every change that is made here, from the command line or over the API is written down, with who
              made it.
            </p>
          </Empty>
        </div>
      )}
      {changes.length > 0 && (
        <Sheet label="Changes">
          <table>
            <thead>
              <tr>
                <th>When</th>
                <th>Who</th>
                <th>What</th>
                <th>On</th>
                <th>From</th>
                <th>Outcome</th>
              </tr>
            </thead>
            <tbody>
              {changes.map((change, index) => (
                <tr key={index}>
                  <td className="quiet">
                    <Moment at={change.at} />
                  </td>
                  <td className="main">{change.who ?? <span className="faint">anybody</span>}</td>
                  <td>{change.what.replaceAll("_", " ")}</td>
                  <td className="wide-cell">
                    <On name={change.on} />
                  </td>
                  <td className="quiet mono">{change.from}</td>
                  <td>
                    <Outcome change={change} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Sheet>
      )}
      {hasNextPage && (
        <button type="button" className="button" onClick={() => void fetchNextPage()}>
          Show older ones
        </button>
      )}
    </Page>
  );
}

function On({ name }: { name: string | null | undefined }) {
  if (!name || !RUN.test(name)) return <>{name}</>;
  return (
    <Link to="/runs/$id" params={{ id: name }} className="mono">
      {name}
    </Link>
  );
}

function Outcome({ change }: { change: Change }) {
  const state = change.status < 400 ? "completed" : "failed";
  return (
    <span className="state" data-state={state}>
      <StateIcon state={state} size={14} />
      {change.problem ?? (change.status < 400 ? "done" : change.status)}
    </span>
  );
}
