/** What can be done to a run, and when. */
import { hasEnded, type Run, type State } from "../api/types.ts";
import type { IconName } from "../parts/Icon.tsx";

export type Action = "cancel" | "terminate" | "pause" | "resume" | "retry" | "discard" | "fork" | "send";

export interface Offer {
  action: Action;
  name: string;
  icon: IconName;
  /** Whether it is in front, or in the menu. */
  first: boolean;
  means: string;
  danger?: boolean;
}

const OFFERS: Record<Action, Omit<Offer, "action" | "first">> = {
  retry: {
    name: "Retry",
    icon: "retry",
    means: "It is opened again: what has completed is kept, the rest runs again.",
  },
  resume: { name: "Resume", icon: "play", means: "It goes on." },
  send: {
    name: "Send an event",
    icon: "send",
    means: "A run that waits for this event goes on with what it carries.",
  },
  pause: {
    name: "Pause",
    icon: "pause",
    means: "What executes now is finished. Nothing new begins until it is resumed.",
  },
  cancel: {
    name: "Cancel",
    icon: "stop",
    means: "Its attempts may tidy up, and what it has done is undone if it says how.",
    danger: true,
  },
  fork: {
    name: "Fork",
    icon: "fork",
    means: "A new run is started with a copy of everything that came before a task.",
  },
  terminate: {
    name: "Terminate",
    icon: "stop",
    means: "It ends at once, without asking its code. Nothing is undone. For runs that do not hear a cancel.",
    danger: true,
  },
  discard: {
    name: "Discard",
    icon: "bin",
    means: "It is forgotten, with all that is recorded of it. This cannot be taken back.",
    danger: true,
  },
};

const RETRYABLE: ReadonlySet<State> = new Set<State>(["failed", "cancelled", "abandoned"]);

function fits(action: Action, run: Pick<Run, "state">): boolean {
  const over = hasEnded(run.state);
  switch (action) {
    case "retry":
      return RETRYABLE.has(run.state);
    case "resume":
      return run.state === "paused";
    case "pause":
      return !over && run.state !== "paused" && run.state !== "undoing";
    case "discard":
      return over;
    case "fork":
      return true;
    default:
      return !over;
  }
}

export function offers(run: Pick<Run, "state" | "waits_for">): Offer[] {
  const front: Action[] = ["retry", "resume", "pause", "cancel"];
  if (run.waits_for?.includes("event")) front.unshift("send");
  const all = Object.keys(OFFERS) as Action[];
  return all
    .filter((action) => fits(action, run))
    .map((action) => ({ action, first: front.includes(action), ...OFFERS[action] }));
}
