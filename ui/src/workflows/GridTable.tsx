/** The latest runs by their tasks: what fails now and then is seen as a pattern. */
import { Link } from "@tanstack/react-router";
import type { Grid } from "../api/types.ts";
import { Empty, Loading } from "../parts/Page.tsx";
import { StateIcon, StateMark, words } from "../parts/State.tsx";
import { Ago, Lasted } from "../parts/Time.tsx";
import { span } from "../parts/time.ts";

export function GridTable({ grid, workflow }: { grid: Grid | undefined; workflow: string }) {
  if (grid === undefined) return <Loading />;
  if (grid.runs.length === 0)
    return (
      <Empty icon="runs" title={`${workflow} has not run yet`}>
        <p>Each run is a row here, and each task a column, so that what fails now and then stands out.</p>
      </Empty>
    );
  return (
    <div className="sheet bare grid">
      <table>
        <thead>
          <tr>
            <th>Run</th>
            {grid.tasks.map((task) => (
              <th key={task.name} className="task" data-flaky={task.flaky}>
                <span>{task.name}</span>
                {task.flaky && (
                  <em title="It needed more than one attempt, or failed in some runs and not in others">
                    flaky
                  </em>
                )}
              </th>
            ))}
            <th className="number">Took</th>
          </tr>
        </thead>
        <tbody>
          {grid.runs.map((run) => (
            <tr key={run.id}>
              <td>
                <div className="row">
                  <StateMark state={run.state} bare />
                  <Link to="/runs/$id" params={{ id: run.id }} className="mono">
                    {run.id.slice(-12)}
                  </Link>
                  <span className="faint push">
                    <Ago at={run.created_at} />
                  </span>
                </div>
              </td>
              {grid.tasks.map((task, index) => {
                const cell = run.cells[index];
                return (
                  <td key={task.name} className="cell">
                    {cell ? (
                      <Link
                        to="/runs/$id"
                        params={{ id: run.id }}
                        search={{ step: task.name }}
                        className="state"
                        data-state={cell.state}
                        title={`${task.name}: ${words(cell.state)}, ${cell.attempts} ${cell.attempts === 1 ? "attempt" : "attempts"}, ${span(cell.duration * 1_000)}`}
                      >
                        <StateIcon state={cell.state} size={15} />
                        <span className="hidden-label">
                          {task.name} {words(cell.state)}
                        </span>
                        {cell.attempts > 1 && <small>{cell.attempts}</small>}
                      </Link>
                    ) : (
                      <span className="faint" title={`${task.name}: nothing is recorded`}>
                        ·
                      </span>
                    )}
                  </td>
                );
              })}
              <td className="number quiet">
                <Lasted from={run.created_at} to={run.ended_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
