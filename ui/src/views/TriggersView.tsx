/** All triggers: conditions that are asked, and that start runs when they say so. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { triggers, useMayAct } from "../api/queries.ts";
import { Empty, Loading, Page, Wrong } from "../parts/Page.tsx";
import { Ago } from "../parts/Time.tsx";
import { TimedActions } from "../schedules/actions.tsx";
import { Matter, Standing } from "../schedules/standing.tsx";
import "../schedules/schedules.css";
import { Sheet } from "../parts/Sheet";

export function TriggersView() {
  const { data, error, refetch } = useQuery(triggers);
  const mayAct = useMayAct();
  if (!data && !error) return <Loading />;
  return (
    <Page title="Triggers" sub={data && `${data.length}`}>
      {error && <Wrong why={error} again={() => void refetch()} />}
      {data?.length === 0 && (
        <div className="card">
          <Empty icon="triggers" title="No engine has a trigger">
            <p>A trigger is a function that looks for something, and starts a run when it is there.</p>
            <pre className="json">
              {
                '#[trigger(every = "5s", starts = etl)]\nasync fn new_file(dir: Res<Inbox>) -> Result<Fire<Source>> { … }'
              }
            </pre>
          </Empty>
        </div>
      )}
      {data && data.length > 0 && (
        <Sheet label="Triggers">
          <table>
            <thead>
              <tr>
                <th>Trigger</th>
                <th>State</th>
                <th>Asked</th>
                <th>Next</th>
                <th>Last fired</th>
                <th className="number">Fired</th>
                <th className="number">Under way</th>
                {mayAct && (
                  <th>
                    <span className="hidden-label">Actions</span>
                  </th>
                )}
              </tr>
            </thead>
            <tbody>
              {data.map((one) => (
                <tr key={one.name}>
                  <td className="main">
                    {one.name}
                    <div className="under">
                      <Link to="/workflows/$name" params={{ name: one.workflow }}>
                        {one.workflow}
                      </Link>
                    </div>
                  </td>
                  <td>
                    <Standing state={one.state} paused={one.paused} />
                    <div className="under matter-cell">
                      <Matter state={one.state} paused={one.paused} trouble={one.trouble} />
                    </div>
                  </td>
                  <td>{one.words}</td>
                  <td className="quiet">{one.next ? <Ago at={one.next} /> : "–"}</td>
                  <td className="quiet">{one.last_fired ? <Ago at={one.last_fired} /> : "never"}</td>
                  <td className="number">{one.fired}</td>
                  <td className="number">{one.running}</td>
                  {mayAct && (
                    <td>
                      <TimedActions kind="triggers" one={one} />
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </Sheet>
      )}
    </Page>
  );
}
