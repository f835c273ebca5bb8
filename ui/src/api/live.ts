/** Hears when anything has changed, and has what is on the screen asked for again. */
import type { QueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useSyncExternalStore } from "react";
import { address } from "./client.ts";

/** `live`: the server says when something changes. `asking`: it does not, and is asked now and then. `cut`: it is out of reach. */
export type Standing = "live" | "asking" | "cut";

const ASK_EVERY = 3_000;

let standing: Standing = "asking";
const watchers = new Set<() => void>();
const hearers = new Set<() => void>();

function stand(next: Standing): void {
  if (standing === next) return;
  standing = next;
  for (const told of watchers) told();
}

function changed(): void {
  if (document.hidden) return;
  for (const told of hearers) told();
}

/** Begins to listen, and gives the way to stop. */
export function listen(queries: QueryClient): () => void {
  let timer: ReturnType<typeof setInterval> | undefined;
  const refresh = () =>
    queries.invalidateQueries({ predicate: (query) => query.meta?.live === true }, { cancelRefetch: false });
  hearers.add(refresh);
  const ask = () => {
    timer ??= setInterval(changed, ASK_EVERY);
  };
  const source = new EventSource(address("live"));
  source.onopen = () => {
    stand("live");
    changed();
  };
  source.onmessage = changed;
  source.addEventListener("changed", changed);
  source.onerror = () => {
    // A server that does not speak of changes refuses for good; one that is away is tried again by the browser.
    if (source.readyState === EventSource.CLOSED) {
      stand("asking");
      ask();
    } else {
      stand("cut");
    }
  };
  const seen = () => document.hidden || changed();
  document.addEventListener("visibilitychange", seen);
  return () => {
    source.close();
    clearInterval(timer);
    hearers.delete(refresh);
    document.removeEventListener("visibilitychange", seen);
  };
}

/** Calls when something has changed, anywhere. */
export function useChanges(hear: () => void): void {
  const latest = useRef(hear);
  useEffect(() => {
    latest.current = hear;
  });
  useEffect(() => {
    const told = () => latest.current();
    hearers.add(told);
    return () => {
      hearers.delete(told);
    };
  }, []);
}

const subscribe = (told: () => void) => {
  watchers.add(told);
  return () => {
    watchers.delete(told);
  };
};

export const useStanding = (): Standing => useSyncExternalStore(subscribe, () => standing);
