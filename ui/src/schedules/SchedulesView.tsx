/** All schedules: what they start, when, and whether that goes well. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { schedules, useMayAct } from "../api/queries.ts";
import { Empty, Loading, Page, Wrong } from "../parts/Page.tsx";
import { Ago } from "../parts/Time.tsx";
import { TimedActions } from "./actions.tsx";
import "./schedules.css";
import { Sheet } from "../parts/Sheet";
import { Matter, Standing } from "./standing.tsx";

export function SchedulesView() {
  const { data, error, refetch } = useQuery(schedules);
  const mayAct = useMayAct();
  if (!data && !error) return <Loading />;
  return (
    <Page title="Schedules" sub={data && `${data.length}`}>
      {error && <Wrong why={error} again={() => void refetch()} />}
      {data?.length === 0 && (
        <div className="card">
          <Empty icon="schedules" title="Nothing is scheduled">
            <p>A program declares its schedules when it starts; declared again, nothing changes.</p>
            <pre className="json">
              {
                'engine.schedule("nightly").cron("0 2 * * *").timezone("Europe/Paris")\n    .workflow(etl::workflow(), Source::nightly()).await?'
              }
            </pre>
          </Empty>
        </div>
      )}
      {data && data.length > 0 && (
        <Sheet label="Schedules">
          <table>
            <thead>
              <tr>
                <th>Schedule</th>
                <th>State</th>
                <th>When</th>
                <th>Next</th>
                <th>Last</th>
                <th className="number">Runs</th>
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
                    <Link to="/schedules/$name" params={{ name: one.name }}>
                      {one.name}
                    </Link>
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
                  <td className="quiet">{one.next_run ? <Ago at={one.next_run} /> : "–"}</td>
                  <td className="quiet">{one.last_run ? <Ago at={one.last_run.started_at} /> : "–"}</td>
                  <td className="number">{one.runs}</td>
                  {mayAct && (
                    <td>
                      <TimedActions kind="schedules" one={one} />
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
