/** Which runs are meant, as it stands in the address. */
import type { Query } from "../api/client.ts";
import { STATES, type State } from "../api/types.ts";
import { all, one, type Search } from "../search.ts";

export const CONDITIONS = ["workflow", "queue", "tag", "key", "since", "until"] as const;
export type Condition = (typeof CONDITIONS)[number];

export interface Filter extends Partial<Record<Condition, string>> {
  state: State[];
}

/** Spans that a time may be given as: so long ago. */
export const SPANS = ["15m", "1h", "6h", "24h", "7d", "30d"] as const;

const UNITS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SPAN = /^(\d+)\s*([smhd])$/;

export function read(search: Search): Filter {
  const filter: Filter = { state: STATES.filter((state) => all(search.state).includes(state)) };
  for (const name of CONDITIONS) {
    const said = one(search[name]);
    if (said) filter[name] = said;
  }
  return filter;
}

/** A time that somebody wrote: `6h` (ago), `2026-03-01`, or an instant. Null when it is none. */
export function timeOf(text: string, now: number): string | null {
  const said = text.trim();
  const [, amount, unit] = SPAN.exec(said) ?? [];
  const at = amount && unit ? now - Number(amount) * UNITS[unit]! : Date.parse(said);
  return Number.isFinite(at) ? new Date(at).toISOString() : null;
}

/** What the API is asked with. Times that cannot be read are sent as they are: the server says what is wrong with them. */
export function query(filter: Filter, now: number): Query {
  const { state, since, until, ...words } = filter;
  const time = (text: string | undefined) => text && (timeOf(text, now) ?? text);
  return { ...words, state, since: time(since), until: time(until) };
}

/** The same for the body of a bulk action, where what is not said is left out. */
export function body(filter: Filter, now: number): Record<string, unknown> {
  return Object.fromEntries(Object.entries(query(filter, now)).filter(([, value]) => value !== undefined));
}

export const isEmpty = (filter: Filter): boolean =>
  filter.state.length === 0 && CONDITIONS.every((name) => filter[name] === undefined);

/** As a sentence: `failed runs of etl with tag eu, started in the last 6 h`. */
export function inWords(filter: Filter): string {
  const { state, workflow, queue, tag, key, since, until } = filter;
  const ago = (text: string) => SPAN.test(text.trim());
  const parts = [
    state.length > 0 ? `${state.join(" or ")} runs` : "runs",
    workflow && `of ${workflow}`,
    queue && `in queue ${queue}`,
    tag && `with tag ${tag}`,
    key && `with key ${key}`,
    since && (ago(since) ? `started in the last ${since}` : `started since ${since}`),
    until && (ago(until) ? `started more than ${until} ago` : `started before ${until}`),
  ];
  return parts.filter(Boolean).join(" ");
}
