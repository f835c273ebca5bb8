/** What stands behind the question mark: plain words, so that an address can be read, written and shared. */
export type Search = Record<string, string | string[] | undefined>;

export function parseSearch(text: string): Search {
  const search: Search = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const had = search[name];
    search[name] = had === undefined ? value : [...(Array.isArray(had) ? had : [had]), value];
  }
  return search;
}

export function stringifySearch(search: Record<string, unknown>): string {
  const written = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") written.append(name, String(one));
    }
  }
  return written.size > 0 ? `?${written}` : "";
}

/** The first of what was said under a name. */
export function one(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

export function all(value: string | string[] | undefined): string[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}
