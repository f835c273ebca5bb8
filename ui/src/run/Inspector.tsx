/** All that is known of one step. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { document as documentOf } from "../api/queries.ts";
import type { Failure, Run } from "../api/types.ts";
import { Icon } from "../parts/Icon.tsx";
import { Json } from "../parts/Json.tsx";
import { StateMark } from "../parts/State.tsx";
import { Lasted, Moment } from "../parts/Time.tsx";
import { Logs } from "./Logs.tsx";
import { recordsOf, type Step } from "./steps.ts";

export function Inspector({
  run,
  step,
  close,
  fork,
}: {
  run: Run;
  step: Step;
  close: () => void;
  fork?: () => void;
}) {
  const node = run.graph?.nodes.find((one) => one.name === step.name);
  return (
    <section className="inspector card" aria-label={`Step ${step.name}`}>
      <header>
        <div className="cut">
          <h2 className="cut" title={step.name}>
            {step.name}
          </h2>
        </div>
        <StateMark state={step.state} />
        <button
          type="button"
          className="button bare icon small push"
          aria-label="Close the step"
          onClick={close}
        >
          <Icon name="close" />
        </button>
      </header>
      <div className="body stack">
        <dl className="facts">
          <dt>Kind</dt>
          <dd>
            {step.kind}
            {node?.for_each && `, once for each of ${node.for_each}`}
          </dd>
          {node?.rule && (
            <>
              <dt>Runs when</dt>
              <dd>{node.rule}</dd>
            </>
          )}
          {step.task?.skipped_because && (
            <>
              <dt>Skipped</dt>
              <dd>{step.task.skipped_because}</dd>
            </>
          )}
          {step.task?.items && (
            <>
              <dt>Elements</dt>
              <dd>
                {step.task.items.ended} of {step.task.items.total} have ended
              </dd>
            </>
          )}
          {step.call && (
            <>
              <dt>Began</dt>
              <dd>
                <Moment at={step.call.started_at} />
              </dd>
              {step.call.child && (
                <>
                  <dt>Run</dt>
                  <dd>
                    <Link to="/runs/$id" params={{ id: step.call.child }} className="mono">
                      {step.call.child.slice(-12)}
                    </Link>
                  </dd>
                </>
              )}
              {step.call.attempts > 1 && (
                <>
                  <dt>Attempts</dt>
                  <dd>{step.call.attempts}</dd>
                </>
              )}
              {step.call.retry_at && step.call.state === "ready" && (
                <>
                  <dt>{step.kind === "step" ? "Tried again" : "Waits until"}</dt>
                  <dd>
                    <Moment at={step.call.retry_at} />
                  </dd>
                </>
              )}
            </>
          )}
          <Undo step={step} />
        </dl>
        {step.failure && <Why failure={step.failure} />}
        {step.attempts.length > 0 && <Attempts step={step} />}
        <Values run={run} step={step} />
        <Logs run={run.id} task={step.name} compact />
        {fork && (
          <button type="button" className="button" onClick={fork}>
            <Icon name="fork" size={14} /> Fork from here…
          </button>
        )}
      </div>
    </section>
  );
}

function Undo({ step }: { step: Step }) {
  const undo = step.task?.undo ?? step.call?.undo;
  const failure = step.task?.undo_failure ?? step.call?.undo_failure;
  if (!undo) return null;
  return (
    <>
      <dt>Undo</dt>
      <dd>
        <StateMark state={undo} />
        {failure && <div className="quiet">{failure.message}</div>}
      </dd>
    </>
  );
}

export function Why({ failure }: { failure: Failure }) {
  return (
    <div className="note" data-kind="trouble">
      <Icon name="alert" />
      <div className="stack tight">
        <p>
          <strong>{failure.message}</strong>
        </p>
        {failure.chain.map((cause) => (
          <p key={cause} className="quiet">
            caused by: {cause}
          </p>
        ))}
        <p className="faint">
          {failure.kind.replace("_", " ")}
          {failure.transient && ", likely to go away by itself"}
        </p>
      </div>
    </div>
  );
}

const MOST = 60;

function Attempts({ step }: { step: Step }) {
  // What failed first: in a long list it is what one looks for.
  const rank = (outcome: string) => (outcome === "failed" ? 0 : 1);
  const attempts = step.attempts.toReversed().sort((a, b) => rank(a.outcome) - rank(b.outcome));
  const each = step.task?.items !== undefined && step.task.items !== null;
  return (
    <div>
      <h3>Attempts</h3>
      <table className="attempts">
        <thead className="hidden-label">
          <tr>
            <th>Attempt</th>
            <th>Outcome</th>
            <th>Began</th>
            <th>Took</th>
          </tr>
        </thead>
        <tbody>
          {attempts.slice(0, MOST).map((attempt) => (
            <tr key={`${attempt.step} ${attempt.generation} ${attempt.number}`}>
              <td className="mono nowrap">
                {each ? `${attempt.step.slice(step.name.length)} ` : ""}#{attempt.number}
              </td>
              <td>
                <StateMark state={attempt.outcome} />
                {attempt.failure && <div className="quiet small">{attempt.failure.message}</div>}
              </td>
              <td className="quiet">
                <Moment at={attempt.started_at} />
              </td>
              <td className="number quiet">
                <Lasted from={attempt.started_at} to={attempt.ended_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {attempts.length > MOST && <p className="faint">and {attempts.length - MOST} more, in the record</p>}
    </div>
  );
}

/** What went in and what came out, from the record. */
function Values({ run, step }: { run: Run; step: Step }) {
  const ended = step.attempts.length + (step.call?.attempts ?? 0);
  const { data } = useQuery({
    ...documentOf(run.id, `${run.state} ${step.id} ${ended}`),
    placeholderData: keepPreviousData,
  });
  if (!data) return null;
  const records = recordsOf(step, data.steps).filter((record) => record.output !== null);
  const needed = run.graph?.edges.filter((edge) => edge.to === step.name).map((edge) => edge.from) ?? [];
  const first = needed.length === 0 && step.kind === "task";
  const inputs = needed.map(
    (name) => [name, data.steps.findLast((one) => one.name === name && one.output !== null)] as const,
  );
  return (
    <>
      {first && (
        <div>
          <h3>Input</h3>
          <Json value={data.input} label="Input of the run" />
        </div>
      )}
      {inputs.map(
        ([name, record]) =>
          record && (
            <div key={name}>
              <h3>
                Input <span className="faint">{name}</span>
              </h3>
              <Json value={record.output} label={`Result of ${name}`} />
            </div>
          ),
      )}
      {records.slice(0, 20).map((record) => (
        <div key={`${record.name} ${record.generation} ${record.attempt}`}>
          <h3>Output {record.name !== step.name && <span className="faint">{record.name}</span>}</h3>
          <Json value={record.output} label={`Output of ${record.name}`} />
        </div>
      ))}
    </>
  );
}
