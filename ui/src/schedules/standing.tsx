/** How a schedule or a trigger stands, as a sign and in words. */
import type { ScheduleState } from "../api/types.ts";
import { type AnyState, StateIcon } from "../parts/State.tsx";
import { Ago } from "../parts/Time.tsx";

const SIGNS: Record<ScheduleState["kind"], AnyState> = {
  idle: "ready",
  running: "running",
  completed: "completed",
  backoff: "retrying",
  tripped: "blocked",
};

export function Standing({ state, paused }: { state: ScheduleState; paused?: string | null }) {
  const isPaused = paused !== null && paused !== undefined;
  const sign: AnyState = isPaused ? "paused" : SIGNS[state.kind];
  return (
    <span
      className="state"
      data-state={sign}
      title={"last_error" in state ? state.last_error : (paused ?? undefined)}
    >
      <StateIcon state={sign} />
      {isPaused ? "paused" : state.kind === "backoff" ? "holds back" : state.kind}
    </span>
  );
}

/** What is the matter, when something is. */
export function Matter({
  state,
  paused,
  trouble,
}: {
  state: ScheduleState;
  paused?: string | null;
  trouble?: string | null;
}) {
  if (trouble) return <span className="matter">{trouble}</span>;
  if (paused) return <span className="quiet">{paused}</span>;
  switch (state.kind) {
    case "backoff":
      return (
        <span className="matter">
          failed {state.streak} times, tries again <Ago at={state.until} />: {state.last_error}
        </span>
      );
    case "tripped":
      return (
        <span className="matter">
          stopped after {state.streak} failures: {state.last_error}
        </span>
      );
    default:
      return null;
  }
}
