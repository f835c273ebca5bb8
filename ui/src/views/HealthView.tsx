/** What is wrong, and what to do. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Trouble } from "../api/client.ts";
import { health } from "../api/queries.ts";
import { Icon } from "../parts/Icon.tsx";
import { Loading, Page, Wrong } from "../parts/Page.tsx";
import { StateIcon } from "../parts/State.tsx";
import { Ago } from "../parts/Time.tsx";
import "./views.css";

export function HealthView() {
  const { data, error, refetch, dataUpdatedAt } = useQuery(health);
  if (!data && !error) return <Loading />;
  const unreachable = error instanceof Trouble && (error.status === 503 || error.status === 0);
  return (
    <Page
      title="Health"
      sub={
        dataUpdatedAt > 0 && (
          <>
            looked <Ago at={new Date(dataUpdatedAt).toISOString()} />
          </>
        )
      }
      actions={
        <button type="button" className="button" onClick={() => void refetch()}>
          <Icon name="retry" size={14} /> Look again
        </button>
      }
    >
      {error && <Wrong why={error} />}
      {data && !unreachable && (
        <>
          {data.ok && (
            <div className="note" data-kind="well">
              <StateIcon state="completed" />
              <p>
                <strong>All is well.</strong> The database answers, and every process that should live does.
              </p>
            </div>
          )}
          <ul className="stack tight">
            {data.wrong.map((words) => (
              <li key={words} className="note" data-kind="trouble">
                <Icon name="alert" />
                <Sentence words={words} />
                <Where words={words} />
              </li>
            ))}
          </ul>
          <dl className="strip">
            <div>
              <dt>Nodes alive</dt>
              <dd>{data.nodes.alive}</dd>
            </div>
            <div>
              <dt>Silent</dt>
              <dd>{data.nodes.stale}</dd>
            </div>
            <div>
              <dt>Dead</dt>
              <dd>{data.nodes.dead}</dd>
            </div>
          </dl>
        </>
      )}
    </Page>
  );
}

/** What is wrong, and after it, fainter, what to do. */
function Sentence({ words }: { words: string }) {
  const text = words.charAt(0).toUpperCase() + words.slice(1);
  return <p>{text}</p>;
}

/** The view in which it is put right. */
function Where({ words }: { words: string }) {
  const [, kind, name] = /^(schedule|trigger|queue) `([^`]+)`/.exec(words) ?? [];
  if (kind === "schedule" && name)
    return (
      <Link to="/schedules/$name" params={{ name }} className="button small push">
        Look at {name}
      </Link>
    );
  if (kind === "trigger")
    return (
      <Link to="/triggers" className="button small push">
        Triggers
      </Link>
    );
  if (kind === "queue")
    return (
      <Link to="/queues" className="button small push">
        Queues
      </Link>
    );
  if (words.includes("blocked"))
    return (
      <Link to="/runs" search={{ state: "blocked" }} className="button small push">
        Blocked runs
      </Link>
    );
  if (words.startsWith("process"))
    return (
      <Link to="/nodes" className="button small push">
        Nodes
      </Link>
    );
  return null;
}
