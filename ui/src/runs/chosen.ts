/** Which runs are chosen: some, by id, or all that fit the filter. */
export type Chosen = ReadonlySet<string>;

/** The runs from the one chosen last to this one. */
export function through(rows: readonly { id: string }[], from: string | undefined, to: string): string[] {
  const [a, b] = [rows.findIndex((row) => row.id === from), rows.findIndex((row) => row.id === to)];
  if (a < 0 || b < 0) return [to];
  return rows.slice(Math.min(a, b), Math.max(a, b) + 1).map((row) => row.id);
}

export function toggled(chosen: Chosen, ids: readonly string[]): Chosen {
  const next = new Set(chosen);
  const all = ids.every((id) => next.has(id));
  for (const id of ids) {
    if (all) next.delete(id);
    else next.add(id);
  }
  return next;
}
