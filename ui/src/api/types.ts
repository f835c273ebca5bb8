/** The server's words, as its OpenAPI document has them. */
import type { components } from "./schema.ts";

type S = components["schemas"];
export type State = S["State"];
export type Stage = S["Stage"];
export type Outcome = S["Outcome"];
export type RunLine = S["RunLine"];
export type RunPage = S["RunPage"];
export type Run = S["RunView"];
export type Task = S["Task"];
export type Call = S["Call"];
export type Attempt = S["Attempt"];
export type Failure = S["Failure"];
export type Verdict = S["Verdict"];
export type Graph = S["Graph"];
export type GraphNode = S["GraphNode"];
export type WorkflowLine = S["WorkflowLine"];
export type Workflow = S["WorkflowView"];
export type Schedule = S["Schedule"];
export type ScheduleView = S["ScheduleView"];
export type ScheduleState = S["ScheduleState"];
export type Trigger = S["Trigger"];
export type Queue = S["Queue"];
export type Limits = S["Limits"];
export type Node = S["Node"];
export type Health = S["Health"];
export type PendingEvent = S["PendingEvent"];
export type BulkAction = S["Action"];
export type Ending = S["Ending"];
export type StartedRun = S["StartedRun"];
export type Count = S["Count"];
export type Overview = S["Overview"];
export type Statistics = S["Statistics"];
export type Grid = S["Grid"];
export type Session = S["Session"];
export type Change = S["Change"];

export const STATES: readonly State[] = [
  "pending",
  "running",
  "suspended",
  "paused",
  "blocked",
  "undoing",
  "completed",
  "failed",
  "cancelled",
  "abandoned",
];

const ENDED: ReadonlySet<State> = new Set<State>(["completed", "failed", "cancelled", "abandoned"]);
export const hasEnded = (state: State): boolean => ENDED.has(state);

/** One record of a run, as `document` gives it. */
export interface StepRecord {
  name: string;
  generation: number;
  attempt: number;
  kind: string;
  started_at: string;
  ended_at: string;
  output: unknown;
  detail: unknown;
}

export interface RunDocument {
  input: unknown;
  output?: unknown;
  context: unknown;
  failure?: unknown;
  steps: StepRecord[];
  [more: string]: unknown;
}

/** A line that was logged inside a task. */
export interface LogLine {
  at: string;
  level: string;
  task?: string | null;
  attempt?: number | null;
  message: string;
  fields?: Record<string, unknown> | null;
}
