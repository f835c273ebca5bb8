import { expect, test } from "vitest";
import type { RunLine, RunPage, State } from "../src/api/types.ts";
import { through, toggled } from "../src/runs/chosen.ts";
import { RunList } from "../src/runs/RunList.ts";

const run = (id: number, state: State = "running") =>
  ({ id: String(id).padStart(7, "0"), state, tags: [] }) as unknown as RunLine;

/** A server whose runs are numbered, newest first. */
class Server {
  runs: RunLine[];
  asked = 0;
  /** How many runs it looks at in one go. */
  look = 5_000;
  fits = (_: RunLine): boolean => true;
  constructor(count: number) {
    this.runs = Array.from({ length: count }, (_, index) => run(count - index));
  }
  readonly fetch = async (after: string | undefined, limit: number): Promise<RunPage> => {
    this.asked++;
    const rest = this.runs.filter((one) => after === undefined || Number(one.id) < Number(after));
    const seen = rest.slice(0, this.look);
    const runs = seen.filter((one) => this.fits(one)).slice(0, limit);
    const last = runs.length === limit ? runs.at(-1)! : seen.at(-1);
    return { runs, next: rest.at(-1) !== last ? last!.id : null };
  };
}

const ids = (list: RunList) => list.shown.rows.map((row) => Number(row.id));

test("pages follow one another without a gap or a repeat", async () => {
  const server = new Server(1_250);
  const list = new RunList(server.fetch);
  for (let page = 0; page < 6; page++) await list.more();
  expect(ids(list)).toEqual(server.runs.map((one) => Number(one.id)));
  expect(list.shown.next).toBeNull();
});

test("a held list changes rows where they are, and counts what is new", async () => {
  const server = new Server(5);
  const list = new RunList(server.fetch);
  await list.more();
  server.runs = [run(7), run(6), run(5, "failed"), ...server.runs.slice(1)];
  await list.refresh(0, 4, true);
  expect(ids(list)).toEqual([5, 4, 3, 2, 1]);
  expect([list.shown.rows[0]?.state, list.shown.fresh]).toEqual(["failed", 2]);
  await list.refresh(0, 4, false);
  expect([ids(list), list.shown.fresh]).toEqual([[7, 6, 5, 4, 3, 2, 1], 0]);
});

test("what no longer fits stays in a held list, marked, and leaves it afterwards", async () => {
  const server = new Server(4);
  const list = new RunList(server.fetch);
  await list.more();
  server.runs = server.runs.filter((one) => Number(one.id) !== 3);
  await list.refresh(0, 3, true);
  expect([ids(list), [...list.shown.gone].map(Number)]).toEqual([[4, 3, 2, 1], [3]]);
  await list.refresh(0, 3, false);
  expect([ids(list), list.shown.gone.size]).toEqual([[4, 2, 1], 0]);
});

test("whoever has scrolled is told what is new, and keeps the rows above", async () => {
  const server = new Server(900);
  const list = new RunList(server.fetch);
  await list.more();
  await list.more();
  const before = ids(list);
  server.runs = [run(901), ...server.runs];
  server.runs[301] = run(600, "completed");
  await list.refresh(295, 320, false);
  expect(ids(list)).toEqual(before);
  expect([list.shown.fresh, list.shown.rows[300]?.state]).toEqual([1, "completed"]);
});

test("more new runs than a page are said to be more, and the way to the top shows them", async () => {
  const server = new Server(10);
  const list = new RunList(server.fetch);
  await list.more();
  server.runs = [...new Server(300).runs];
  await list.refresh(0, 9, true);
  expect([list.shown.fresh, list.shown.freshAndMore]).toEqual([100, true]);
  await list.restart();
  expect([ids(list)[0], list.shown.fresh]).toEqual([300, 0]);
});

test("a failed question keeps the rows, says why, and is forgotten when the next succeeds", async () => {
  const server = new Server(3);
  let down = false;
  const list = new RunList((after, limit) =>
    down ? Promise.reject(new Error("down")) : server.fetch(after, limit),
  );
  await list.more();
  down = true;
  await list.refresh(0, 2, false);
  expect([list.shown.error?.message, ids(list).length]).toEqual(["down", 3]);
  down = false;
  await list.refresh(0, 2, false);
  expect(list.shown.error).toBeUndefined();
});

test("a search that finds nothing waits for somebody, and goes on where it was", async () => {
  const server = new Server(100_000);
  server.fits = (one) => Number(one.id) === 2;
  const list = new RunList(server.fetch);
  for (let page = 0; page < 50; page++) await list.more();
  expect([server.asked, list.shown.waits, Number(list.shown.next)]).toEqual([10, true, 50_001]);
  // What changes meanwhile is seen, and does not begin the search anew.
  await list.refresh(0, 0, false);
  expect([list.shown.waits, Number(list.shown.next)]).toEqual([true, 50_001]);
  await list.goOn();
  for (let page = 0; page < 50; page++) await list.more();
  expect([ids(list), list.shown.next, list.shown.waits]).toEqual([[2], null, false]);
  expect(server.asked).toBe(21);
  await list.refresh(0, 0, false);
  expect(ids(list)).toEqual([2]);
});

test("a look at the beginning of a long search keeps what was found further on, and drops what has gone", async () => {
  const server = new Server(30_000);
  let fitting = [29_000, 28_000, 4_000];
  server.fits = (one) => fitting.includes(Number(one.id));
  const list = new RunList(server.fetch);
  for (let page = 0; page < 6; page++) await list.more();
  expect(ids(list)).toEqual(fitting);
  fitting = [29_500, 28_000, 4_000];
  await list.refresh(0, 2, true);
  expect([...list.shown.gone].map(Number)).toEqual([29_000]);
  await list.refresh(0, 2, false);
  expect(ids(list)).toEqual(fitting);
});

test("a page that is asked for while the list looks again comes after it", async () => {
  const server = new Server(900);
  const list = new RunList(server.fetch);
  await list.more();
  await Promise.all([list.refresh(0, 40, false), list.more()]);
  expect(ids(list)).toHaveLength(600);
});

test("runs are chosen one by one and in stretches", () => {
  const rows = [{ id: "a" }, { id: "b" }, { id: "c" }, { id: "d" }];
  expect(through(rows, "d", "b")).toEqual(["b", "c", "d"]);
  expect(through(rows, undefined, "b")).toEqual(["b"]);
  const some = toggled(new Set(["a"]), ["b", "c"]);
  expect([...some]).toEqual(["a", "b", "c"]);
  expect([...toggled(some, ["b", "c"])]).toEqual(["a"]);
});
