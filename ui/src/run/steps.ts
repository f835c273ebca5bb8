/** What a run is made of, put together from its tasks, their attempts, and what durable functions called. */
import type { Attempt, Call, Failure, Run, StepRecord, Task } from "../api/types.ts";
import type { AnyState } from "../parts/State.tsx";
import { instant } from "../parts/time.ts";

export interface Step {
  /** Unique in a run. */
  id: string;
  name: string;
  kind: "task" | "step" | "sleep" | "event" | "child" | "patch" | "visit";
  state: AnyState;
  failure?: Failure | null;
  attempts: readonly Attempt[];
  task?: Task;
  call?: Call;
}

const KINDS = ["step", "sleep", "event", "child", "patch", "visit"] as const;

export function stepsOf(run: Run): Step[] {
  const tasks = run.tasks.map(
    (task): Step => ({
      id: task.name,
      name: task.name,
      kind: "task",
      state: stateOf(task),
      failure: task.failure,
      attempts: task.attempts,
      task,
    }),
  );
  const calls = run.calls.map(
    (call): Step => ({
      id: `call ${call.name}`,
      name: call.name,
      kind: KINDS.find((kind) => kind === call.kind) ?? "step",
      state: callState(call),
      failure: call.failure,
      attempts: [],
      call,
    }),
  );
  return [...tasks, ...calls];
}

/** A task that waits for its next attempt says so. */
function stateOf(task: Task): AnyState {
  const last = task.attempts.at(-1);
  if (task.state === "ready" && last?.outcome === "retrying" && !task.items) return "retrying";
  if (task.state === "ready" && task.items && task.items.ended > 0) return "running";
  return task.state;
}

function callState(call: Call): AnyState {
  if (call.state !== "ready") return call.state;
  return call.kind === "step" ? (call.failure ? "retrying" : "running") : "suspended";
}

/** How the elements of a `for_each` stand, by their place. Those that have not ended are not known one by one. */
export function itemsOf(task: Task): { name: string; state: AnyState }[] {
  const items = Array.from({ length: task.items?.total ?? 0 }, (_, index) => ({
    name: `${task.name}[${index}]`,
    state: "pending" as AnyState,
  }));
  for (const attempt of task.attempts) {
    const item = items[placeOf(attempt.step) ?? -1];
    if (item) item.state = attempt.outcome;
  }
  return items;
}

/** The place of an element: `price[3]` is the fourth. */
export function placeOf(step: string): number | undefined {
  const found = /\[(\d+)\]$/.exec(step)?.[1];
  return found === undefined ? undefined : Number(found);
}

/** What is recorded of a step, newest attempt first. */
export function recordsOf(step: Step, records: readonly StepRecord[]): StepRecord[] {
  const mine = (record: StepRecord) =>
    record.name === step.name ||
    record.name.startsWith(`${step.name}[`) ||
    record.name.endsWith(`/${step.name}`);
  return records.filter(mine).toReversed();
}

export interface Bar {
  from: number;
  /** Null while it goes on. */
  to: number | null;
  state: AnyState;
  words: string;
}

export interface Line {
  id: string;
  name: string;
  state: AnyState;
  kind: Step["kind"];
  /** How deep it stands below another. */
  depth: 0 | 1;
  bars: Bar[];
  /** How many lines are folded into it. */
  folds: number;
  /** The run that it is. */
  child?: string;
}

/** What happened when, as lines with bars: attempts, and the waits between them. */
export function linesOf(run: Run, open: ReadonlySet<string>): Line[] {
  const lines: Line[] = [];
  for (const step of stepsOf(run)) {
    if (step.call) {
      lines.push(line(step, callBars(step.call, step.state), run.tasks.length > 0 ? 1 : 0));
      continue;
    }
    const elements = step.task?.items ? byStep(step.attempts) : [];
    const isOpen = open.has(step.id);
    const bars =
      elements.length > 0
        ? [
            extent(
              step,
              elements.flatMap(([, attempts]) => attempts),
            ),
          ]
        : barsOf(step, run);
    lines.push({ ...line(step, bars, 0), folds: elements.length });
    if (!isOpen) continue;
    for (const [name, attempts] of elements) {
      const state = attempts.at(-1)?.outcome ?? "pending";
      lines.push({ id: name, name, kind: "task", state, depth: 1, folds: 0, bars: attemptBars(attempts) });
    }
  }
  return lines;
}

const line = (step: Step, bars: Bar[], depth: 0 | 1): Line => ({
  id: step.id,
  name: step.name,
  state: step.state,
  kind: step.kind,
  depth,
  bars,
  folds: 0,
  child: step.call?.child ?? undefined,
});

function byStep(attempts: readonly Attempt[]): [string, Attempt[]][] {
  const groups = new Map<string, Attempt[]>();
  for (const attempt of attempts) groups.set(attempt.step, [...(groups.get(attempt.step) ?? []), attempt]);
  return [...groups].sort(([a], [b]) => (placeOf(a) ?? 0) - (placeOf(b) ?? 0));
}

function extent(step: Step, attempts: readonly Attempt[]): Bar {
  const ended = step.state === "completed" || step.state === "failed" || step.state === "cancelled";
  const words = step.task?.items ? `${step.task.items.ended} of ${step.task.items.total}` : step.name;
  return {
    from: Math.min(...attempts.map((attempt) => instant(attempt.started_at))),
    to: ended ? Math.max(...attempts.map((attempt) => instant(attempt.ended_at))) : null,
    state: step.state,
    words,
  };
}

function attemptBars(attempts: readonly Attempt[]): Bar[] {
  return attempts.flatMap((attempt, index) => {
    const bars: Bar[] = [];
    if (attempt.outcome !== "skipped") {
      bars.push({
        from: instant(attempt.started_at),
        to: instant(attempt.ended_at),
        state: attempt.outcome,
        words: `attempt ${attempt.number}: ${attempt.outcome}${attempt.failure ? `: ${attempt.failure.message}` : ""}`,
      });
    }
    const next = attempts[index + 1];
    if (attempt.retry_at && next)
      bars.push({
        from: instant(attempt.ended_at),
        to: instant(next.started_at),
        state: "pending",
        words: "waited to try again",
      });
    return bars;
  });
}

function barsOf(step: Step, run: Run): Bar[] {
  const bars = attemptBars(step.attempts);
  const last = step.attempts.at(-1);
  if (step.state === "retrying" && last?.retry_at)
    bars.push({
      from: instant(last.ended_at),
      to: instant(last.retry_at),
      state: "pending",
      words: "waits to try again",
    });
  if (step.state === "running") {
    const from = last ? instant(last.retry_at ?? last.ended_at) : startOf(step.name, run);
    bars.push({ from, to: null, state: "running", words: `attempt ${(last?.number ?? 0) + 1} is under way` });
  }
  return bars;
}

/** When a task that has no record yet could begin: when the last of what it needs had ended. */
function startOf(name: string, run: Run): number {
  const needed = run.graph?.edges.filter((edge) => edge.to === name).map((edge) => edge.from) ?? [];
  const ends = run.tasks
    .filter((task) => needed.includes(task.name))
    .flatMap((task) => task.attempts.map((attempt) => instant(attempt.ended_at)));
  return Math.max(instant(run.created_at), ...ends);
}

function callBars(call: Call, state: AnyState): Bar[] {
  const waits = call.state === "ready";
  const to = waits && !(call.kind === "step" && call.attempts > 0) ? null : instant(call.ended_at);
  const many = call.attempts > 1 ? `, ${call.attempts} attempts` : "";
  return [{ from: instant(call.started_at), to, state, words: `${call.kind} ${call.name}${many}` }];
}

/** Whether a state is one that something ends in. */
export const isOver = (state: AnyState): boolean =>
  (["completed", "failed", "skipped", "cancelled", "abandoned"] as AnyState[]).includes(state);

/** Why a run does what it does now, as one sentence for each thing that is under way. */
export function underWay(run: Run, now: number): string[] {
  return run.tasks.flatMap((task) => {
    const last = task.attempts.at(-1);
    if (task.items && task.state === "ready")
      return [`${task.name}: ${task.items.ended} of ${task.items.total} have ended`];
    if (task.state === "running") {
      const far = task.progress ? `, ${Math.round(task.progress * 100)} % done` : "";
      return [`${task.name}: attempt ${(last?.number ?? 0) + 1} is under way${far}`];
    }
    if (task.state === "ready" && last?.outcome === "retrying" && last.retry_at) {
      const seconds = Math.max(0, Math.ceil((instant(last.retry_at) - now) / 1_000));
      return [
        `${task.name}: attempt ${last.number} failed, tried again ${seconds > 0 ? `in ${seconds} s` : "now"}`,
      ];
    }
    return [];
  });
}
