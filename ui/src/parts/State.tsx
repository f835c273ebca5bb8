/** A state: always a shape and a colour, and mostly a word. */
import type { ReactNode } from "react";
import type { Outcome, Stage, State } from "../api/types.ts";

export type AnyState = State | Stage | Outcome;

const ring = <circle cx="8" cy="8" r="6" />;
const disc = <circle cx="8" cy="8" r="7" fill="currentColor" stroke="none" />;
const cut = { stroke: "var(--surface)", strokeWidth: 2 };

const SHAPES: Record<AnyState, ReactNode> = {
  not_started: <circle cx="8" cy="8" r="2" fill="currentColor" stroke="none" />,
  pending: <circle cx="8" cy="8" r="6" strokeDasharray="2.4 2.3" />,
  ready: ring,
  started: <path d="M4.5 2.8v10.4L13 8z" fill="currentColor" />,
  running: (
    <>
      <circle cx="8" cy="8" r="6" opacity="0.28" />
      <path className="turning" d="M8 2a6 6 0 0 1 6 6" strokeWidth="2.2" />
      <path d="M6.6 5.6v4.8L10.4 8z" fill="currentColor" stroke="none" />
    </>
  ),
  suspended: <path d="M4 2.5h8M4 13.5h8M5 2.5c0 3.5 6 7.5 6 11M11 2.5c0 3.5-6 7.5-6 11" />,
  paused: (
    <>
      <rect x="2" y="2" width="12" height="12" rx="3" />
      <path d="M6.3 5.5v5M9.7 5.5v5" strokeWidth="2" />
    </>
  ),
  blocked: (
    <>
      <path d="M5.3 1.7h5.4l3.6 3.6v5.4l-3.6 3.6H5.3l-3.6-3.6V5.3z" />
      <path d="M5.2 8h5.6" strokeWidth="2" />
    </>
  ),
  undoing: <path d="M5.5 3 2.5 6l3 3M3 6h6a4 4 0 0 1 0 8H6" strokeWidth="1.8" />,
  retrying: <path d="M13 8a5 5 0 1 1-1.6-3.7M13.2 1.8v3h-3" strokeWidth="1.8" />,
  completed: (
    <>
      {disc}
      <path d="m4.8 8.3 2.2 2.2 4.2-4.6" {...cut} />
    </>
  ),
  failed: (
    <>
      <path d="M8 .6 15.4 8 8 15.4.6 8z" fill="currentColor" stroke="none" />
      <path d="m5.9 5.9 4.2 4.2M10.1 5.9l-4.2 4.2" {...cut} />
    </>
  ),
  skipped: <path d="m3 4 4 4-4 4M8.5 4l4 4-4 4" strokeWidth="1.8" />,
  cancelled: (
    <>
      {ring}
      <path d="m4 12 8-8" />
    </>
  ),
  abandoned: (
    <>
      <path d="M8 1.2 15.4 14H.6z" fill="currentColor" stroke="none" />
      <path d="M8 6v3.6M8 11.8h.01" {...cut} />
    </>
  ),
};

export const words = (state: AnyState): string => state.replace("_", " ");

export function StateIcon({ state, size = 16 }: { state: AnyState; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {SHAPES[state]}
    </svg>
  );
}

export function StateMark({ state, bare = false }: { state: AnyState; bare?: boolean }) {
  const name = words(state);
  return (
    <span className="state" data-state={state} title={bare ? name : undefined}>
      <StateIcon state={state} />
      {bare ? <span className="hidden-label">{name}</span> : name}
    </span>
  );
}
