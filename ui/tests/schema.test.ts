import { expect, test } from "vitest";
import { limitsOf } from "../src/views/LimitsDialog.tsx";
import { blank, kindOf, resolved, type Schema } from "../src/workflows/schema.ts";

const schema: Schema = {
  type: "object",
  properties: {
    name: { type: "string" },
    count: { type: "integer", minimum: 1 },
    mode: { $ref: "#/$defs/Mode" },
    note: { type: ["string", "null"] },
    place: { anyOf: [{ $ref: "#/$defs/Place" }, { type: "null" }] },
    tags: { type: "array", items: { type: "string" } },
  },
  $defs: {
    Mode: { enum: ["quick", "slow"] },
    Place: { type: "object", properties: { x: { type: "number" } } },
  },
};

test("a form begins with a value that fits", () => {
  expect(blank(schema)).toEqual({ name: "", count: 1, mode: "quick", note: null, place: null, tags: [] });
});

test("what may be nothing is known, through references", () => {
  const place = resolved(schema.properties!.place!, schema);
  expect([place.nullable, kindOf(place.schema)]).toEqual([true, "object"]);
  expect(resolved(schema.properties!.note!, schema)).toMatchObject({
    nullable: true,
    schema: { type: "string" },
  });
});

test("what a form cannot ask for is asked for as JSON", () => {
  expect(kindOf(resolved({ oneOf: [{ type: "string" }, { type: "integer" }] }, schema).schema)).toBe("json");
  expect(kindOf({ type: "object" })).toBe("json");
  expect(kindOf(resolved({ $ref: "#/$defs/Lost" }, schema).schema)).toBe("json");
});

test("a limit that is left empty is none", () => {
  expect(
    limitsOf({ concurrency: "5", per_node: "", rate: "100", rate_per: "60", ageing: "" }, false),
  ).toEqual({
    hold: false,
    concurrency: 5,
    rate: { count: 100, per: 60 },
  });
});
