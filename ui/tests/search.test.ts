import { expect, test } from "vitest";
import { baseOf } from "../src/base.ts";
import { all, one, parseSearch, stringifySearch } from "../src/search.ts";

test("an address is read as it is written, and words stay words", () => {
  const text = "?state=failed&state=abandoned&tag=1.0&key=%22a%22";
  const read = parseSearch(text);
  expect(read).toEqual({ state: ["failed", "abandoned"], tag: "1.0", key: '"a"' });
  expect(stringifySearch(read)).toBe(text);
});

test("what is not said is not written", () => {
  expect(stringifySearch({ tag: undefined, key: "", state: [] })).toBe("");
  expect([all(undefined), all("a"), one(["a", "b"]), one(undefined)]).toEqual([[], ["a"], "a", undefined]);
});

test("the page knows where it stands, behind any proxy and under any path", () => {
  const base = (said: string | undefined, url: string) => baseOf(said, url);
  expect(base("./", "http://h/")).toBe("/");
  expect(base("../", "http://h/windlass/runs/0198?tab=logs")).toBe("/windlass/");
  expect(base("./", "http://h/ops/windlass/runs")).toBe("/ops/windlass/");
  expect(base(undefined, "http://h/a/")).toBe("/a/");
});
