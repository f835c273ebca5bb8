import { expect, test } from "vitest";
import { count, createdAt, distance, span } from "../src/parts/time.ts";

test.each([
  [0, "0 ms"],
  [0.4, "<1 ms"],
  [999, "999 ms"],
  [1_400, "1.4 s"],
  [9_949, "9.9 s"],
  [9_951, "10 s"],
  [59_600, "1 m"],
  [125_000, "2 m 5 s"],
  [3_600_000, "1 h"],
  [90_000_000, "1 d 1 h"],
])("%i ms is said as %s", (ms, words) => expect(span(ms)).toBe(words));

test("no span is negative, though clocks differ", () => expect(span(-5_000)).toBe("0 ms"));

test("a distance has one unit, and says which way", () => {
  expect(distance(0, 61_000)).toBe("1 m ago");
  expect(distance(7_300_000, 0)).toBe("in 2 h");
  expect(distance(500, 0)).toBe("now");
});

test("an id says when its run was created", () => {
  expect(createdAt("0198c2f4-7c1e-7cc0-8f4f-5d2c7b9f1a11")).toBe(0x0198c2f47c1e);
  expect(createdAt("no id")).toBeUndefined();
});

test("large counts are short", () =>
  expect([count(9_999), count(12_345), count(5_000_000)]).toEqual(["9,999", "12.3K", "5M"]));
