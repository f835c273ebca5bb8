/** A run as a graph: its tasks, the states of a machine, or what a durable function has called so far. */
import type { Call, Run } from "../api/types.ts";
import type { Arrow, Box, Drawing } from "../graph/drawing.ts";
import type { AnyState } from "../parts/State.tsx";
import { instant, span } from "../parts/time.ts";
import { itemsOf, type Step, stepsOf } from "./steps.ts";

export function drawingOf(run: Run): Drawing {
  const steps = stepsOf(run);
  const isMachine = run.graph?.nodes.some((node) => node.kind === "state");
  if (isMachine) return machine(run, steps);
  const isFlow = run.tasks.length <= 1 && run.calls.length > 0;
  return isFlow ? flow(run, steps) : tasks(run, steps);
}

function tasks(run: Run, steps: Step[]): Drawing {
  const states = new Map(steps.map((step) => [step.name, step.state]));
  const labelled = new Set(run.graph?.edges.filter((edge) => edge.rule).map((edge) => edge.to));
  const known = new Map(run.graph?.nodes.map((node) => [node.name, node]));
  const boxes = steps
    .filter((step) => step.task)
    .map((step): Box => {
      const node = known.get(step.name);
      const task = step.task!;
      return {
        id: step.id,
        title: step.name,
        kind: "task",
        state: step.state,
        sub: subOf(step, node?.attempts ?? undefined),
        // What stands on an arrow already is not said twice.
        rule: labelled.has(step.name) ? undefined : (node?.rule ?? undefined),
        isOutput: node?.is_output,
        progress: step.state === "running" ? (task.progress ?? undefined) : undefined,
        group: node?.for_each
          ? { ended: task.items?.ended ?? 0, total: task.items?.total ?? 0, items: itemsOf(task) }
          : undefined,
        undo: task.undo ?? undefined,
      };
    });
  const arrows = (run.graph?.edges ?? []).map(
    (edge): Arrow => ({
      from: edge.from,
      to: edge.to,
      label: edge.rule ?? undefined,
      state: arrowState(states, edge),
    }),
  );
  return { boxes, arrows };
}

function arrowState(states: Map<string, AnyState>, edge: { from: string; to: string }): AnyState | undefined {
  const [from, to] = [states.get(edge.from), states.get(edge.to)];
  if (from !== "completed" && from !== "failed") return undefined;
  return to === "running" || to === "retrying" ? "running" : to === "skipped" ? undefined : "completed";
}

function subOf(step: Step, attempts: number | undefined): string | undefined {
  const task = step.task!;
  const last = step.attempts.at(-1);
  if (task.items)
    return `${task.items.ended} of ${task.items.total}${step.state === "failed" ? ", failed" : ""}`;
  if (task.skipped_because) return `skipped: ${task.skipped_because}`;
  if (step.state === "running")
    return attempts && attempts > 1 ? `attempt ${(last?.number ?? 0) + 1} of ${attempts}` : "running";
  if (step.state === "retrying") return `attempt ${last?.number} of ${attempts ?? "?"} failed`;
  if (!last) return undefined;
  const took = span(instant(last.ended_at) - instant(last.started_at));
  const tries = last.number > 1 ? `${last.number} attempts, ` : "";
  return step.state === "completed" ? `${tries}${took}` : undefined;
}

function machine(run: Run, steps: Step[]): Drawing {
  const visits = new Map<string, Step[]>();
  for (const step of steps.filter((one) => one.kind === "visit")) {
    const name = step.name.replace(/#\d+$/, "");
    visits.set(name, [...(visits.get(name) ?? []), step]);
  }
  const order = [...visits.keys()];
  const boxes = (run.graph?.nodes ?? []).map((node): Box => {
    const been = visits.get(node.name);
    const last = been?.at(-1);
    const end = node.is_output && run.ended_at && isEnd(run, node.name, order) ? "completed" : undefined;
    return {
      id: last?.id ?? node.name,
      title: node.name,
      kind: "state",
      state: last?.state ?? end ?? "not_started",
      sub: been && been.length > 1 ? `${been.length} visits` : node.is_output ? "ends here" : undefined,
    };
  });
  const id = (name: string) => visits.get(name)?.at(-1)?.id ?? name;
  const arrows = (run.graph?.edges ?? []).map(
    (edge): Arrow => ({
      from: id(edge.from),
      to: id(edge.to),
      state: visits.has(edge.from) && visits.has(edge.to) ? "completed" : undefined,
    }),
  );
  return { boxes, arrows };
}

/** Whether a machine that has ended did so here: the only end that its last state leads to. */
function isEnd(run: Run, name: string, order: string[]): boolean {
  const last = order.at(-1);
  const ends = run.graph?.edges.filter((edge) => edge.from === last).map((edge) => edge.to) ?? [];
  return run.state === "completed" && ends.length === 1 && ends[0] === name;
}

/** What was called, from left to right. What was under way at the same time stands side by side. */
function flow(run: Run, steps: Step[]): Drawing {
  const calls = steps.filter(
    (step): step is Step & { call: Call } => step.call !== undefined && step.kind !== "patch",
  );
  const waves = wavesOf(calls);
  const boxes = calls.map((step): Box => {
    const took = span(instant(step.call.ended_at) - instant(step.call.started_at));
    const waits =
      step.state === "suspended"
        ? `waits for ${step.kind === "event" ? "an event" : step.kind === "child" ? "a child run" : "a time"}`
        : undefined;
    const tries = step.call.attempts > 1 ? `${step.call.attempts} attempts` : undefined;
    const sub = [step.kind, waits ?? tries, step.state === "completed" ? took : undefined]
      .filter(Boolean)
      .join(" · ");
    return {
      id: step.id,
      title: step.name,
      kind: step.kind,
      state: step.state,
      sub,
      undo: step.call.undo ?? undefined,
    };
  });
  const arrows = waves
    .slice(1)
    .flatMap((wave, index) =>
      wave.flatMap((to) =>
        waves[index]!.map((from): Arrow => ({ from: from.id, to: to.id, state: "completed" })),
      ),
    );
  const waiting =
    run.waits_for && !calls.some((step) => step.state === "suspended") ? waitingBox(run) : undefined;
  if (waiting) arrows.push(...(waves.at(-1) ?? []).map((from) => ({ from: from.id, to: waiting.id })));
  return { boxes: waiting ? [...boxes, waiting] : boxes, arrows };
}

function waitingBox(run: Run): Box {
  const isEvent = run.waits_for?.includes("event");
  return {
    id: "waits",
    title: isEvent ? (eventsOf(run.waits_for)[0] ?? "event") : run.state,
    kind: isEvent ? "event" : "sleep",
    state: run.state,
    sub: isEvent ? "waits for this event" : (run.waits_for ?? undefined),
  };
}

/** Calls in groups: each begins before the first of its group has ended. */
export function wavesOf<S extends { call: Pick<Call, "started_at" | "ended_at"> }>(
  calls: readonly S[],
): S[][] {
  const waves: S[][] = [];
  let end = Number.NEGATIVE_INFINITY;
  for (const step of [...calls].sort((a, b) => instant(a.call.started_at) - instant(b.call.started_at))) {
    const wave = waves.at(-1);
    if (wave && instant(step.call.started_at) < end) {
      wave.push(step);
      end = Math.min(end, instant(step.call.ended_at));
    } else {
      waves.push([step]);
      end = instant(step.call.ended_at);
    }
  }
  return waves;
}

/** The events that a wait names. */
export function eventsOf(waitsFor: string | null | undefined): string[] {
  if (!waitsFor?.includes("event")) return [];
  return [...waitsFor.matchAll(/`([^`]+)`/g)].map((found) => found[1]!);
}
