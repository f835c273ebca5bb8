import { expect, test } from "vitest";
import type { Attempt, Call, Run, Task } from "../src/api/types.ts";
import { placed, sizeOf } from "../src/graph/layout.ts";
import { offers } from "../src/run/actions.ts";
import { drawingOf, eventsOf, wavesOf } from "../src/run/drawing.ts";
import { ticks } from "../src/run/scale.ts";
import { itemsOf, linesOf, stepsOf, underWay } from "../src/run/steps.ts";

const at = (seconds: number) => new Date(Date.UTC(2026, 2, 1) + seconds * 1_000).toISOString();

const attempt = (
  step: string,
  number: number,
  outcome: Attempt["outcome"],
  from: number,
  to: number,
  more = {},
): Attempt => ({
  step,
  number,
  outcome,
  generation: 1,
  started_at: at(from),
  ended_at: at(to),
  ...more,
});
const task = (
  name: string,
  state: Task["state"],
  attempts: Attempt[] = [],
  more: Partial<Task> = {},
): Task => ({
  name,
  state,
  attempts,
  ...more,
});
const call = (name: string, kind: string, state: Call["state"], from: number, to: number): Call => ({
  name,
  kind,
  state,
  attempts: 1,
  started_at: at(from),
  ended_at: at(to),
});
const run = (more: Partial<Run>): Run =>
  ({
    id: "1",
    workflow: "etl",
    state: "running",
    created_at: at(0),
    tasks: [],
    calls: [],
    published: {},
    tags: [],
    ...more,
  }) as Run;

const retried = task("clean", "ready", [attempt("clean", 1, "retrying", 1, 2, { retry_at: at(4) })]);

test("a task that waits for its next attempt says so, in the list and in words", () => {
  const shown = run({ tasks: [retried] });
  expect(stepsOf(shown)[0]?.state).toBe("retrying");
  expect(underWay(shown, Date.parse(at(2.5)))).toEqual(["clean: attempt 1 failed, tried again in 2 s"]);
});

test("a wait between attempts is a bar of its own", () => {
  const [line] = linesOf(run({ tasks: [retried] }), new Set());
  expect(line?.bars.map((bar) => [bar.state, bar.to! - bar.from])).toEqual([
    ["retrying", 1_000],
    ["pending", 2_000],
  ]);
});

test("the elements of a for_each are folded, and unfold in their order", () => {
  const each = task(
    "enrich",
    "ready",
    [attempt("enrich[10]", 1, "completed", 1, 2), attempt("enrich[2]", 1, "failed", 1, 3)],
    { items: { ended: 2, total: 12 } },
  );
  expect(
    itemsOf(each)
      .map((item) => item.state)
      .filter((state) => state !== "pending"),
  ).toEqual(["failed", "completed"]);
  const folded = linesOf(run({ tasks: [each] }), new Set());
  expect(folded.map((line) => [line.name, line.folds, line.bars[0]?.to])).toEqual([["enrich", 2, null]]);
  expect(linesOf(run({ tasks: [each] }), new Set(["enrich"])).map((line) => line.name)).toEqual([
    "enrich",
    "enrich[2]",
    "enrich[10]",
  ]);
});

test("a running task without a record begins where the last that it needs has ended", () => {
  const shown = run({
    tasks: [task("a", "completed", [attempt("a", 1, "completed", 0, 5)]), task("b", "running")],
    graph: { nodes: [], edges: [{ from: "a", to: "b" }] },
  });
  const bar = linesOf(shown, new Set())[1]?.bars[0];
  expect([bar?.from, bar?.to]).toEqual([Date.parse(at(5)), null]);
});

test("what a durable function calls at the same time stands side by side", () => {
  const calls = [
    call("charge", "step", "completed", 0, 1),
    call("label", "step", "completed", 1, 3),
    call("bill", "step", "completed", 1.1, 2),
  ];
  expect(
    wavesOf(calls.map((one) => ({ call: one }))).map((wave) => wave.map((one) => one.call.name)),
  ).toEqual([["charge"], ["label", "bill"]]);
  const drawing = drawingOf(
    run({
      tasks: [task("checkout", "running")],
      calls,
      state: "suspended",
      waits_for: "the event `approved`, until x",
    }),
  );
  expect(drawing.boxes.map((box) => box.title)).toEqual(["charge", "label", "bill", "approved"]);
  expect(drawing.arrows).toHaveLength(4);
});

test("the events that a run waits for are known by name", () => {
  expect(eventsOf("one of the events `a`, `b`, until 2026-01-01")).toEqual(["a", "b"]);
  expect(eventsOf("code that can continue it: no task `x`")).toEqual([]);
});

test("boxes never lie on one another, whatever is unfolded", () => {
  const group = { ended: 3, total: 100, items: [] };
  const drawing = {
    boxes: ["a", "b", "c", "d"].map((id) => ({
      id,
      title: id,
      kind: "task" as const,
      ...(id === "c" && { group }),
    })),
    arrows: [
      { from: "a", to: "b" },
      { from: "a", to: "c", label: "failed(a)" },
      { from: "b", to: "d" },
      { from: "d", to: "a" },
    ],
  };
  expect(sizeOf(drawing.boxes[2]!, true).height).toBeGreaterThan(sizeOf(drawing.boxes[2]!, false).height);
  for (const direction of ["LR", "TB"] as const) {
    const places = [...placed(drawing, new Set(["c"]), direction).values()];
    for (const [index, a] of places.entries())
      for (const b of places.slice(index + 1)) {
        const apart =
          a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
        expect(apart).toBe(true);
      }
  }
});

test("only what can be done is offered", () => {
  const names = (state: Run["state"], waits_for?: string) =>
    offers({ state, waits_for }).map((offer) => offer.action);
  expect(names("failed")).toEqual(["retry", "fork", "discard"]);
  expect(names("completed")).toEqual(["fork", "discard"]);
  expect(names("paused")).toEqual(["resume", "send", "cancel", "fork", "terminate"]);
  expect(names("running")).not.toContain("retry");
  expect(
    offers({ state: "suspended", waits_for: "the event `x`" }).find((offer) => offer.action === "send")
      ?.first,
  ).toBe(true);
});

test("a scale has round numbers, and few of them", () => {
  expect(ticks(3_600)).toEqual([0, 1_000, 2_000, 3_000]);
  for (const whole of [1, 7, 950, 61_000, 86_400_000, 4e9])
    expect(ticks(whole).length).toBeLessThanOrEqual(7);
});
