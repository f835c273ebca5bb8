/** The steps of a run, its events, and its record. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { document as documentOf, pendingEvents } from "../api/queries.ts";
import { hasEnded, type Run } from "../api/types.ts";
import { Icon } from "../parts/Icon.tsx";
import { Json } from "../parts/Json.tsx";
import { Empty, Loading, Wrong } from "../parts/Page.tsx";
import { Sheet } from "../parts/Sheet";
import { type AnyState, StateMark } from "../parts/State.tsx";
import { Lasted, Moment } from "../parts/Time.tsx";
import { instant, span } from "../parts/time.ts";
import type { Step } from "./steps.ts";

export function Steps({
  steps,
  chosen,
  choose,
}: {
  steps: Step[];
  chosen?: string;
  choose: (id: string) => void;
}) {
  if (steps.length === 0) return <Empty icon="runs" title="Nothing has begun yet" />;
  return (
    <Sheet label="Steps" kind="bare">
      <table>
        <thead>
          <tr>
            <th>Step</th>
            <th>State</th>
            <th>Kind</th>
            <th className="number">Attempts</th>
            <th className="number">Took</th>
            <th>Last error</th>
          </tr>
        </thead>
        <tbody>
          {steps.map((step) => (
            <tr key={step.id} data-chosen={step.id === chosen}>
              <td className="main">
                <button type="button" className="plain-link" onClick={() => choose(step.id)}>
                  {step.name}
                </button>
              </td>
              <td>
                <StateMark state={step.state} />
              </td>
              <td className="quiet">{step.kind}</td>
              <td className="number">{step.call?.attempts ?? step.attempts.length}</td>
              <td className="number quiet">{tookOf(step)}</td>
              <td className="quiet wide-cell">{step.failure?.message ?? lastError(step)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Sheet>
  );
}

function tookOf(step: Step): string {
  const parts = step.call ? [step.call] : step.attempts;
  if (parts.length === 0) return "";
  const from = Math.min(...parts.map((one) => instant(one.started_at)));
  return span(Math.max(...parts.map((one) => instant(one.ended_at))) - from);
}

const lastError = (step: Step): string | undefined =>
  step.attempts.findLast((attempt) => attempt.failure)?.failure?.message;

export function Events({ run }: { run: Run }) {
  const { data } = useQuery({ ...pendingEvents(run.id), enabled: !hasEnded(run.state) });
  const received = run.calls.filter((call) => call.kind === "event");
  const published = Object.entries(run.published ?? {});
  if ((data?.length ?? 0) === 0 && received.length === 0 && published.length === 0)
    return (
      <Empty icon="send" title="No events">
        <p>What is sent to this run, and what it publishes, is shown here.</p>
      </Empty>
    );
  return (
    <div className="body stack">
      {(data?.length ?? 0) > 0 && (
        <section>
          <h3>Sent, and not received yet</h3>
          {data?.map((event, index) => (
            <div key={index} className="event">
              <p>
                <Icon name="send" size={13} /> <code>{event.name}</code>{" "}
                <span className="faint">
                  <Moment at={event.sent_at} />
                </span>
              </p>
              <Json value={event.payload} label={`Payload of ${event.name}`} />
            </div>
          ))}
        </section>
      )}
      {received.length > 0 && (
        <section>
          <h3>Waited for</h3>
          <ul className="stack tight">
            {received.map((call) => (
              <li key={call.name} className="row">
                <StateMark state={(call.state === "ready" ? "suspended" : call.state) as AnyState} />{" "}
                <code>{call.name}</code>
                <span className="faint">
                  <Lasted from={call.started_at} to={call.state === "ready" ? undefined : call.ended_at} />
                </span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {published.length > 0 && (
        <section>
          <h3>Published</h3>
          {published.map(([name, value]) => (
            <div key={name} className="event">
              <code>{name}</code>
              <Json value={value} label={`Published ${name}`} />
            </div>
          ))}
        </section>
      )}
    </div>
  );
}

const KINDS: Record<string, AnyState> = {
  Completed: "completed",
  Failed: "failed",
  Retrying: "retrying",
  Skipped: "skipped",
  Cancelled: "cancelled",
  Started: "started",
};

/** All that is recorded, in the order in which it was. */
export function Record({ run }: { run: Run }) {
  const ended = run.tasks.reduce((sum, task) => sum + task.attempts.length, run.calls.length);
  const { data, error, refetch } = useQuery({
    ...documentOf(run.id, `${run.state} ${ended}`),
    placeholderData: keepPreviousData,
  });
  if (error) return <Wrong why={error} again={() => void refetch()} />;
  if (!data) return <Loading />;
  return (
    <div className="body stack">
      <div className="halves">
        <section>
          <h3>Input</h3>
          <Json value={data.input} label="Input" />
        </section>
        {data.output !== undefined && data.output !== null && (
          <section>
            <h3>Output</h3>
            <Json value={data.output} label="Output" />
          </section>
        )}
        {data.context !== null && data.context !== undefined && (
          <section>
            <h3>Context</h3>
            <Json value={data.context} label="Context" />
          </section>
        )}
      </div>
      <section>
        <h3>History</h3>
        <ol className="history">
          {data.steps.map((record, index) => (
            <li key={index}>
              <details>
                <summary>
                  <StateMark state={KINDS[record.kind] ?? "completed"} bare />
                  <span className="mono">{record.name}</span>
                  {record.attempt > 1 && <span className="faint">attempt {record.attempt}</span>}
                  {record.generation > 1 && <span className="faint">generation {record.generation}</span>}
                  <span className="faint push">
                    <Moment at={record.ended_at} />
                  </span>
                </summary>
                {record.output !== null && <Json value={record.output} label={`Output of ${record.name}`} />}
                {record.detail !== null && <Json value={record.detail} label={`Details of ${record.name}`} />}
              </details>
            </li>
          ))}
        </ol>
      </section>
      <details>
        <summary>The whole document</summary>
        <Json value={data} label="Document" />
      </details>
    </div>
  );
}
