/** A list of runs that stays true while things change, and that never moves under a pointer. */
import type { RunLine, RunPage } from "../api/types.ts";

export type Fetch = (after: string | undefined, limit: number) => Promise<RunPage>;

export interface Shown {
  rows: readonly RunLine[];
  /** How many are to be had at the top, which are not shown yet. */
  fresh: number;
  /** Whether there are more of them than were counted. */
  freshAndMore: boolean;
  /** Runs that no longer fit, and stay until the list may move. */
  gone: ReadonlySet<string>;
  /** Where the next page begins; null when all are here, undefined before the first. */
  next: string | null | undefined;
  /** Whether the search has found little for so long that it only goes on when somebody says so. */
  waits: boolean;
  error: Error | undefined;
}

const PAGE = 100;
const LARGE_PAGE = 500;
/** How many pages that were not full follow one another before the search waits for somebody to say that it goes on. */
const SPARSE = 10;

export class RunList {
  shown: Shown = {
    rows: [],
    fresh: 0,
    freshAndMore: false,
    gone: new Set(),
    next: undefined,
    waits: false,
    error: undefined,
  };
  private busy = false;
  /** How many pages in a row were not full. */
  private sparse = 0;
  /** Whether the next page was asked for while something else was. */
  private wantsMore = false;
  private readonly told = new Set<() => void>();

  constructor(private readonly fetch: Fetch) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.told.add(listener);
    return () => this.told.delete(listener);
  };
  readonly snapshot = (): Shown => this.shown;

  /** Fetches the page after what is there, unless the search waits. */
  async more(): Promise<void> {
    if (this.shown.next === null || this.shown.waits) return;
    this.wantsMore = this.busy;
    await this.alone(async () => {
      const { rows, next } = this.shown;
      const limit = rows.length === 0 ? PAGE : LARGE_PAGE;
      const page = await this.fetch(next ?? undefined, limit);
      const had = new Set(rows.map((row) => row.id));
      this.sparse = page.runs.length < limit ? this.sparse + 1 : 0;
      this.show({
        rows: [...rows, ...page.runs.filter((run) => !had.has(run.id))],
        next: page.next ?? null,
        waits: this.sparse >= SPARSE && !!page.next,
      });
    });
  }

  /** Searches on. */
  async goOn(): Promise<void> {
    this.sparse = 0;
    this.show({ waits: false });
    await this.more();
  }

  /** Goes back to the top, with everything that is new. */
  async restart(): Promise<void> {
    await this.alone(async () => {
      const page = await this.fetch(undefined, PAGE);
      this.sparse = 0;
      this.show({
        rows: page.runs,
        next: page.next ?? null,
        waits: false,
        fresh: 0,
        freshAndMore: false,
        gone: new Set(),
      });
    });
  }

  /**
   * Looks again at the rows that are seen. While the list is held, rows only change where they are: what came and what went
   * is said, and shown later.
   */
  async refresh(first: number, last: number, held: boolean): Promise<void> {
    if (this.shown.next === undefined) return this.more();
    await this.alone(async () => {
      const { rows } = this.shown;
      const begin = Math.min(Math.max(0, first), rows.length);
      const limit = Math.min(LARGE_PAGE, Math.max(PAGE, last - begin + 20));
      const page = await this.fetch(rows[begin - 1]?.id, limit);
      const isFull = page.runs.length >= limit;
      if (held) this.touch(begin, page, isFull);
      else this.splice(begin, page, isFull);
      if (begin > 0) this.count(await this.fetch(undefined, PAGE));
      else if (held) this.count(page);
      else this.show({ fresh: 0, freshAndMore: false });
    });
  }

  /** Changes rows where they are. */
  private touch(begin: number, page: RunPage, isFull: boolean): void {
    const now = new Map(page.runs.map((run) => [run.id, run]));
    const { rows } = this.shown;
    const end = isFull ? this.endOf(begin, page) : this.reachOf(begin, page);
    const gone = new Set(
      rows
        .slice(begin, end)
        .filter((row) => !now.has(row.id))
        .map((row) => row.id),
    );
    this.show({ rows: rows.map((row) => now.get(row.id) ?? row), gone });
  }

  /** Puts a page in the place of what it says anew. */
  private splice(begin: number, page: RunPage, isFull: boolean): void {
    const { rows, next } = this.shown;
    if (!isFull && page.next) {
      const end = this.reachOf(begin, page);
      // The search has come further than a look at its beginning.
      const far = end < rows.length || next === null || (next !== undefined && next < page.next);
      const all = [...rows.slice(0, begin), ...page.runs, ...rows.slice(end)];
      this.show({ rows: all, next: far ? next : page.next, gone: new Set() });
      return;
    }
    const end = this.endOf(begin, page);
    const last = end > begin ? rows[end - 1]?.id : undefined;
    const known = page.runs.findLastIndex((run) => run.id === last);
    if (page.next === null || page.next === undefined || known < 0) {
      this.show({ rows: [...rows.slice(0, begin), ...page.runs], next: page.next ?? null, gone: new Set() });
    } else {
      this.show({
        rows: [...rows.slice(0, begin), ...page.runs.slice(0, known + 1), ...rows.slice(end)],
        gone: new Set(),
      });
    }
  }

  /** After which row of ours a page has nothing more to say. */
  private endOf(begin: number, page: RunPage): number {
    const { rows } = this.shown;
    if (page.next === null || page.next === undefined) return rows.length;
    const there = new Set(page.runs.map((run) => run.id));
    const last = rows.findLastIndex((row, index) => index >= begin && there.has(row.id));
    return Math.max(begin, last + 1);
  }

  /** After which row of ours a page that is not full has nothing more to say: where its search was given up. */
  private reachOf(begin: number, page: RunPage): number {
    const { rows } = this.shown;
    const reach = page.next;
    const beyond = reach ? rows.findIndex((row, index) => index >= begin && row.id < reach) : -1;
    return beyond < 0 ? rows.length : beyond;
  }

  private count(head: RunPage): void {
    const had = new Set(this.shown.rows.map((row) => row.id));
    const old = head.runs.findIndex((run) => had.has(run.id));
    const fresh = old < 0 ? head.runs.length : old;
    this.show({ fresh, freshAndMore: old < 0 && head.next !== null && head.next !== undefined });
  }

  /** One question at a time: a slow answer never overwrites a newer one. */
  private async alone(work: () => Promise<void>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      await work();
      if (this.shown.error) this.show({ error: undefined });
    } catch (error) {
      this.show({ error: error as Error });
    } finally {
      this.busy = false;
    }
    if (this.wantsMore) await this.more();
  }

  private show(change: Partial<Shown>): void {
    this.shown = { ...this.shown, ...change };
    for (const listener of this.told) listener();
  }
}
