/** What may be meant by what is being typed into the filter. */
import { CONDITIONS, type Condition, SPANS } from "./filter.ts";

export interface Known {
  workflow: readonly string[];
  queue: readonly string[];
  tag: readonly string[];
}

export type Suggestion =
  | { kind: "condition"; condition: Condition; hint: string }
  | { kind: "value"; condition: Condition; value: string };

const HINTS: Record<Condition, string> = {
  workflow: "runs of a workflow",
  queue: "runs in a queue",
  tag: "runs with a tag",
  key: "the run started under a key",
  since: "started since: 6h, 7d, 2026-03-01",
  until: "started before: 6h, 7d, 2026-03-01",
};
const MOST = 8;

function valuesOf(condition: Condition, known: Known): readonly string[] {
  if (condition === "since" || condition === "until") return SPANS;
  return condition === "key" ? [] : known[condition];
}

export function suggest(text: string, known: Known): Suggestion[] {
  const said = text.trimStart();
  const [name, value] = said.includes(":")
    ? [said.slice(0, said.indexOf(":")), said.slice(said.indexOf(":") + 1)]
    : [said];
  const condition = CONDITIONS.find((one) => one === name?.toLowerCase());
  if (condition && value !== undefined) return values(condition, value.trim(), known);
  const fits = (one: string) => one.toLowerCase().includes(said.toLowerCase());
  const conditions = CONDITIONS.filter((one) => one.startsWith(said.toLowerCase()));
  const suggestions: Suggestion[] = conditions.map((one) => ({
    kind: "condition",
    condition: one,
    hint: HINTS[one],
  }));
  if (said === "") return suggestions;
  for (const one of ["workflow", "queue", "tag"] as const) {
    const found = known[one].filter(fits).slice(0, MOST);
    suggestions.push(...found.map((value): Suggestion => ({ kind: "value", condition: one, value })));
  }
  const exact = said.trim();
  const has = (one: Condition) =>
    suggestions.some((said) => said.kind === "value" && said.condition === one && said.value === exact);
  for (const one of ["key", "tag"] as const)
    if (!has(one)) suggestions.push({ kind: "value", condition: one, value: exact });
  return suggestions;
}

function values(condition: Condition, value: string, known: Known): Suggestion[] {
  const fitting = valuesOf(condition, known).filter((one) => one.toLowerCase().includes(value.toLowerCase()));
  const all = value === "" || fitting.includes(value) ? fitting : [...fitting, value];
  return all.slice(0, MOST).map((one) => ({ kind: "value", condition, value: one }));
}
