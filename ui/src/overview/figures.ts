/** The figures in front, from what the server counts. */
import { useEffect, useState } from "react";
import type { Overview } from "../api/types.ts";

export interface Figures {
  running: number;
  waiting: number;
  oldest: number;
  /** Completed in the last whole minute. */
  perMinute: number;
  completed: number;
  failed: number;
  /** The share of those that ended which failed, in words. */
  share: string | undefined;
  lateness: number;
}

export function figuresOf({ states, series, queues, lateness_s }: Overview): Figures {
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  const completed = sum(series.points.map((point) => point.completed));
  const failed = sum(series.points.map((point) => point.failed));
  const share = completed + failed > 0 ? failed / (completed + failed) : 0;
  return {
    running:
      states.find((one) => one.state === "running")?.count ?? sum(queues.map((queue) => queue.running)),
    waiting: sum(queues.map((queue) => queue.waiting)),
    oldest: Math.max(0, ...queues.map((queue) => queue.oldest_s ?? 0)),
    // The last minute has not passed yet.
    perMinute: series.points.at(-2)?.completed ?? 0,
    completed,
    failed,
    share:
      failed > 0 ? `${share < 0.001 ? "<0.1" : (share * 100).toFixed(1)} % of all that ended` : undefined,
    lateness: lateness_s,
  };
}

interface Point {
  at: number;
  running: number;
  waiting: number;
}

const KEPT = 300;

/** What was seen since the page was opened. */
export function useTrail(figures: Figures): Point[] {
  const [trail, setTrail] = useState<Point[]>([]);
  const { running, waiting } = figures;
  const [seen, setSeen] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeen((count) => count + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: one point a second, whatever has changed
  useEffect(() => {
    setTrail((before) => [...before.slice(1 - KEPT), { at: Date.now() / 1_000, running, waiting }]);
  }, [seen]);
  return trail;
}
