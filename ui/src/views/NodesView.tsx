/** The processes that run an engine. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { nodes } from "../api/queries.ts";
import type { Node } from "../api/types.ts";
import { Empty, Loading, Page, Wrong } from "../parts/Page.tsx";
import { type AnyState, StateIcon } from "../parts/State.tsx";
import { Ago, Lasted, useNow } from "../parts/Time.tsx";
import { instant } from "../parts/time.ts";
import "./views.css";
import { Sheet } from "../parts/Sheet";

const SIGNS: Record<Node["health"], AnyState> = { alive: "completed", stale: "retrying", dead: "abandoned" };

export function NodesView() {
  const { data, error, refetch } = useQuery(nodes);
  if (!data && !error) return <Loading />;
  const alive = data?.filter((node) => node.health === "alive").length;
  return (
    <Page title="Nodes" sub={data && data.length > 0 && `${alive} of ${data.length} alive`}>
      {error && <Wrong why={error} again={() => void refetch()} />}
      {data?.length === 0 && (
        <div className="card">
          <Empty icon="nodes" title="No process runs an engine">
            <p>Runs wait until there is one: start a program that launches an engine on this database.</p>
          </Empty>
        </div>
      )}
      {data && data.length > 0 && (
        <Sheet label="Nodes">
          <table>
            <thead>
              <tr>
                <th>Node</th>
                <th>Health</th>
                <th>Heartbeat</th>
                <th className="number">Running</th>
                <th>Queues</th>
                <th>Version</th>
                <th className="number">Up for</th>
              </tr>
            </thead>
            <tbody>
              {data.map((node) => (
                <tr key={node.id}>
                  <td className="main">
                    {node.name ?? node.host}
                    <div className="under mono" title={node.id}>
                      {node.host} · pid {node.pid}
                    </div>
                  </td>
                  <td>
                    <span className="state" data-state={SIGNS[node.health]}>
                      <StateIcon state={SIGNS[node.health]} /> {node.health}
                    </span>
                  </td>
                  <td>
                    <Beat node={node} />
                  </td>
                  <td className="number">{node.running}</td>
                  <td>
                    <div className="row wrap">
                      {node.queues.length === 0 && <span className="quiet">all</span>}
                      {node.queues.map((queue) => (
                        <Link key={queue} to="/runs" search={{ queue }} className="tag">
                          {queue}
                        </Link>
                      ))}
                    </div>
                  </td>
                  <td>
                    <code>{node.version}</code>
                  </td>
                  <td className="number quiet">
                    <Lasted
                      from={node.started_at}
                      to={node.health === "dead" ? node.heartbeat_at : undefined}
                    />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Sheet>
      )}
    </Page>
  );
}

/** How near a node is to being given up. */
function Beat({ node }: { node: Node }) {
  const now = useNow();
  const left = 1 - (now - instant(node.heartbeat_at)) / 1_000 / node.stale_after;
  const sign = left > 0.5 ? "completed" : left > 0 ? "retrying" : "failed";
  return (
    <div className="beat" title={`Given up ${node.stale_after} s after its last heartbeat`}>
      <Ago at={node.heartbeat_at} />
      <div className="bar" data-state={sign}>
        <i style={{ width: `${Math.max(0, Math.min(1, left)) * 100}%` }} />
      </div>
    </div>
  );
}
