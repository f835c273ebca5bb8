/** Times and spans, as people say them. */
const UNITS: readonly [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "m"],
  [1_000, "s"],
];

/** A span in at most two units: `1.4 s`, `2 m 05 s`, `3 d 4 h`. Never negative: clocks differ a little. */
export function span(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms < 1) return ms === 0 ? "0 ms" : "<1 ms";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`;
  const rounded = Math.round(ms / 1_000) * 1_000;
  const first = UNITS.findIndex(([size]) => rounded >= size);
  const [size, name] = UNITS[first]!;
  const whole = `${Math.floor(rounded / size)} ${name}`;
  const next = UNITS[first + 1];
  const rest = next && Math.floor((rounded % size) / next[0]);
  return next && rest ? `${whole} ${rest} ${next[1]}` : whole;
}

/** How long ago or how soon, in one unit. */
export function distance(at: number, now: number): string {
  const ms = at - now;
  const far = Math.abs(ms);
  if (far < 1_500) return "now";
  const [size, name] = UNITS.find(([unit]) => far >= unit) ?? UNITS[3]!;
  const count = `${Math.floor(far / size)} ${name}`;
  return ms < 0 ? `${count} ago` : `in ${count}`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
const YEAR = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

export const clock = (at: number): string => CLOCK.format(at);

/** A time as short as it can be said today. */
export function moment(at: number, now: number): string {
  const [then, today] = [new Date(at), new Date(now)];
  if (then.toDateString() === today.toDateString()) return clock(at);
  const day = then.getFullYear() === today.getFullYear() ? DAY.format(at) : YEAR.format(at);
  return `${day}, ${clock(at)}`;
}

export const instant = (text: string): number => Date.parse(text);

/** When the run with this id was created: ids begin with that, in milliseconds. */
export function createdAt(id: string): number | undefined {
  const at = Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
  return Number.isNaN(at) ? undefined : at;
}

const COUNTS = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const WHOLE = new Intl.NumberFormat("en");
export const count = (number: number): string =>
  number < 10_000 ? WHOLE.format(number) : COUNTS.format(number);
export const whole = (number: number): string => WHOLE.format(number);
