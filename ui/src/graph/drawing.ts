/** What is drawn: boxes and what leads from one to another, whatever they are of. */
import type { AnyState } from "../parts/State.tsx";

export interface Item {
  name: string;
  state: AnyState;
}

export interface Box {
  id: string;
  title: string;
  /** What stands below the title. */
  sub?: string;
  /** What it is: a task, a state of a machine, or something that a durable function called. */
  kind: "task" | "state" | "step" | "sleep" | "event" | "child" | "visit" | "patch";
  state?: AnyState;
  /** When it runs, in words. */
  rule?: string;
  isOutput?: boolean;
  /** How far it has come, from 0 to 1. */
  progress?: number;
  /** For a `for_each`: how many have ended, how many there are, and those that are known one by one. */
  group?: { ended: number; total: number; items: readonly Item[] };
  /** The undo of it. */
  undo?: AnyState;
}

export interface Arrow {
  from: string;
  to: string;
  label?: string;
  /** Whether it was gone along. */
  state?: AnyState;
}

export interface Drawing {
  boxes: readonly Box[];
  arrows: readonly Arrow[];
}
