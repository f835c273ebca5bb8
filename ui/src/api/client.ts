/** Asks the API, and says in words what went wrong. */
import { base } from "../base.ts";

/** What the API, or the way to it, said instead of an answer. */
export class Trouble extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
  ) {
    super(detail);
  }

  /** Whether this server is older than the page, or has this part switched off. */
  get isMissing(): boolean {
    return this.status === 404 && this.code === "not_found";
  }
}

export type Query = Record<string, string | number | readonly string[] | undefined | null>;

export function address(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    for (const one of Array.isArray(value) ? value : [value]) search.append(name, String(one));
  }
  const asked = search.size > 0 ? `?${search}` : "";
  return `${base}api/v1/${path}${asked}`;
}

/** How long after a change of ours only answers are good that were not given to somebody else before it. */
const OURS = 2_000;
let changedAt = Number.NEGATIVE_INFINITY;

async function ask(method: string, path: string, query: Query, body?: unknown, signal?: AbortSignal) {
  const headers: Record<string, string> = { accept: "application/json" };
  const changes = method !== "GET";
  // Others may look at the same: an answer of the last second, and from after the last word of a change, is shared.
  if (!changes && performance.now() - changedAt > OURS) headers["cache-control"] = "max-age=1";
  if (changes) {
    headers["content-type"] = "application/json";
    headers["x-windlass-csrf"] = "1";
  }
  let answer: Response;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (why) {
    if (signal?.aborted) throw why;
    throw new Trouble(0, "unreachable", "The server cannot be reached. It is tried again by itself.");
  }
  if (answer.ok) return answer.status === 204 || answer.status === 202 ? readable(answer) : answer.json();
  throw await trouble(answer);
}

/** Changes something. What is asked from then on is asked anew. */
async function change<T>(method: string, path: string, body?: unknown): Promise<T> {
  changedAt = Number.POSITIVE_INFINITY;
  try {
    return await ask(method, path, {}, body);
  } finally {
    changedAt = performance.now();
  }
}

async function readable(answer: Response): Promise<unknown> {
  const text = await answer.text();
  return text === "" ? null : JSON.parse(text);
}

async function trouble(answer: Response): Promise<Trouble> {
  const body = await answer.text();
  try {
    const problem = JSON.parse(body);
    if (typeof problem.detail === "string")
      return new Trouble(answer.status, problem.code ?? "unknown", problem.detail);
  } catch {
    // Something before the server answered in its own words.
  }
  return new Trouble(answer.status, "unknown", `The server answered ${answer.status} ${answer.statusText}.`);
}

export const get = <T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> =>
  ask("GET", path, query, undefined, signal);
export const post = <T>(path: string, body: unknown = {}): Promise<T> => change("POST", path, body);
export const put = <T>(path: string, body: unknown): Promise<T> => change("PUT", path, body);
export const remove = <T>(path: string): Promise<T> => change("DELETE", path, {});

/** A name as a part of a path. */
export const part = (name: string): string => encodeURIComponent(name);
