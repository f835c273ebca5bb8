import { useSyncExternalStore } from "react";
import { distance, instant, moment, span } from "./time.ts";

let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    if (document.hidden) return;
    now = Date.now();
    for (const told of listeners) told();
  }, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time, once a second, the same for all. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => now);

/** How long ago, with the whole time for whoever points at it. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()} className="nowrap">
      {distance(instant(at), now)}
    </time>
  );
}

export function Moment({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={at} className="nowrap">
      {moment(instant(at), now)}
    </time>
  );
}

/** From a time to another, or to now. */
export function Lasted({ from, to }: { from: string; to?: string | null }) {
  return to ? <span className="nowrap">{span(instant(to) - instant(from))}</span> : <Lasting from={from} />;
}

function Lasting({ from }: { from: string }) {
  const now = useNow();
  const ms = Math.floor(Math.max(0, now - instant(from)) / 1_000) * 1_000;
  return <span className="nowrap">{ms < 1_000 ? "<1 s" : span(ms)}</span>;
}
