import { expect, test } from "vitest";
import { body, inWords, isEmpty, query, read, timeOf } from "../src/runs/filter.ts";
import { suggest } from "../src/runs/suggest.ts";

const NOW = Date.parse("2026-03-01T12:00:00Z");

test("a filter is read from an address, and what is no state is left out", () => {
  const filter = read({ state: ["failed", "lost"], tag: "eu", other: "x" });
  expect(filter).toEqual({ state: ["failed"], tag: "eu" });
  expect([isEmpty(filter), isEmpty(read({}))]).toEqual([false, true]);
});

test("spans count back from now, and times are taken as they are", () => {
  expect(timeOf("6h", NOW)).toBe("2026-03-01T06:00:00.000Z");
  expect(timeOf("2026-02-28T00:00:00Z", NOW)).toBe("2026-02-28T00:00:00.000Z");
  expect(timeOf("yesterday", NOW)).toBeNull();
});

test("a time that cannot be read goes to the server, which says so", () => {
  expect(query(read({ since: "yesterday" }), NOW).since).toBe("yesterday");
});

test("the body of a bulk action says only what is meant", () => {
  expect(body(read({ state: "failed", workflow: "etl", since: "1h" }), NOW)).toEqual({
    state: ["failed"],
    workflow: "etl",
    since: "2026-03-01T11:00:00.000Z",
  });
});

test("a filter reads as a sentence", () => {
  const filter = read({ state: ["failed"], workflow: "etl", tag: "eu", since: "6h" });
  expect(inWords(filter)).toBe("failed runs of etl with tag eu started in the last 6h");
});

const known = { workflow: ["etl", "letters"], queue: ["emails"], tag: ["eu"] };

test("the beginning of a condition is completed", () => {
  expect(suggest("wor", known)[0]).toMatchObject({ kind: "condition", condition: "workflow" });
  expect(suggest("workflow:et", known)).toEqual([
    { kind: "value", condition: "workflow", value: "etl" },
    { kind: "value", condition: "workflow", value: "letters" },
    { kind: "value", condition: "workflow", value: "et" },
  ]);
});

test("a bare word is found among what is known, and may be a key or a tag", () => {
  expect(suggest("eu", known)).toContainEqual({ kind: "value", condition: "tag", value: "eu" });
  expect(suggest("order-7", known)).toEqual([
    { kind: "value", condition: "key", value: "order-7" },
    { kind: "value", condition: "tag", value: "order-7" },
  ]);
});
