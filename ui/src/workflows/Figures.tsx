/** How a workflow has done of late: as a strip, or task by task. */
import type { Statistics } from "../api/types.ts";
import { Empty } from "../parts/Page.tsx";
import { Sheet } from "../parts/Sheet";
import { span, whole } from "../parts/time.ts";

const percent = (share: number | null | undefined): string =>
  share === null || share === undefined
    ? "–"
    : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
const seconds = (value: number | undefined): string => (value === undefined ? "–" : span(value * 1_000));

export function Figures({
  statistics,
  byTask = false,
}: {
  statistics: Statistics | undefined;
  byTask?: boolean;
}) {
  if (!statistics || statistics.runs === 0) {
    if (!byTask) return null;
    return (
      <Empty icon="overview" title="Nothing to count yet">
        <p>Once runs of this workflow have ended, it is shown here how long they took and how many failed.</p>
      </Empty>
    );
  }
  if (!byTask) {
    const { duration } = statistics;
    return (
      <dl className="strip">
        <Fact name="Last runs" value={whole(statistics.runs)} />
        <Fact name="Failed" value={percent(statistics.failure_share)} />
        <Fact name="Half took at most" value={seconds(duration?.p50)} />
        <Fact name="9 in 10" value={seconds(duration?.p90)} />
        <Fact name="99 in 100" value={seconds(duration?.p99)} />
      </dl>
    );
  }
  const longest = Math.max(0.001, ...statistics.tasks.map((task) => task.duration?.p90 ?? 0));
  return (
    <Sheet label="Tasks" kind="bare">
      <table>
        <thead>
          <tr>
            <th>Task</th>
            <th className="number">Runs</th>
            <th className="number">Failed</th>
            <th className="number">Tried again</th>
            <th>Half · 9 in 10 took at most</th>
            <th className="number">99 in 100</th>
          </tr>
        </thead>
        <tbody>
          {statistics.tasks.map((task) => (
            <tr key={task.name}>
              <td className="main">{task.name}</td>
              <td className="number">{whole(task.runs)}</td>
              <td className="number" data-alarm={(task.failure_share ?? 0) > 0}>
                {percent(task.failure_share)}
              </td>
              <td className="number">{percent(task.runs > 0 ? task.retried / task.runs : null)}</td>
              <td>
                <div className="spread">
                  <div className="spread-bar" aria-hidden="true">
                    <i style={{ width: `${((task.duration?.p90 ?? 0) / longest) * 100}%` }} />
                    <b style={{ width: `${((task.duration?.p50 ?? 0) / longest) * 100}%` }} />
                  </div>
                  <span className="nowrap">
                    {seconds(task.duration?.p50)} · {seconds(task.duration?.p90)}
                  </span>
                </div>
              </td>
              <td className="number quiet">{seconds(task.duration?.p99)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Sheet>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
