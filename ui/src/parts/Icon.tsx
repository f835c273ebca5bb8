/** Signs that are drawn, each in a square of sixteen. */
import type { ReactNode } from "react";

const DRAWN = {
  overview: <path d="M2 13V8m4 5V4m4 9V6m4 7V2" />,
  runs: <path d="M2.5 4h11M2.5 8h11M2.5 12h7" />,
  workflows: (
    <>
      <rect x="1.8" y="5.8" width="4.4" height="4.4" rx="1" />
      <rect x="9.8" y="1.8" width="4.4" height="4.4" rx="1" />
      <rect x="9.8" y="9.8" width="4.4" height="4.4" rx="1" />
      <path d="M6.2 8h1.6V4h2M7.8 8v4h2" />
    </>
  ),
  schedules: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.5V8l2.4 1.6" />
    </>
  ),
  triggers: <path d="M9 1.8 3.5 9H8l-1 5.2L12.5 7H8z" />,
  queues: <path d="M2 3.5h12v3H2zM3.5 9.5h9M5 12.5h6" />,
  nodes: (
    <>
      <rect x="2" y="2.5" width="12" height="4.5" rx="1" />
      <rect x="2" y="9" width="12" height="4.5" rx="1" />
      <path d="M4.5 4.75h.01M4.5 11.25h.01" />
    </>
  ),
  health: <path d="M1.5 8.5h3l1.8-5 3 9 1.7-4h3.5" />,
  audit: <path d="M4 2h6l3 3v9H4zM10 2v3h3M6 8.5h5M6 11h5" />,
  search: (
    <>
      <circle cx="7" cy="7" r="4.5" />
      <path d="m10.5 10.5 3.5 3.5" />
    </>
  ),
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  menu: <path d="M2 4.5h12M2 8h12M2 11.5h12" />,
  more: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.2" />,
  down: <path d="m4 6 4 4 4-4" />,
  right: <path d="m6 4 4 4-4 4" />,
  up: <path d="M8 13V3.5M4 7l4-4 4 4" />,
  play: <path d="M4.5 2.8v10.4L13 8z" />,
  pause: <path d="M5 3v10M11 3v10" strokeWidth="2.2" />,
  retry: <path d="M13 8a5 5 0 1 1-1.6-3.7M13.2 1.8v3h-3" />,
  fork: <path d="M4 2v12M4 8.5c4 0 8 0 8-4.5M9.8 5.6 12 3.4l2.2 2.2" />,
  send: <path d="M2 8 14 2.5 10.5 14 8 9z" />,
  stop: <rect x="3.5" y="3.5" width="9" height="9" rx="1.2" />,
  bin: <path d="M2.5 4.5h11M6 4.5V2.8h4v1.7M4 4.5l.6 9h6.8l.6-9" />,
  copy: (
    <>
      <rect x="5.2" y="5.2" width="8.3" height="8.3" rx="1.4" />
      <path d="M10.5 2.8H3.9c-.6 0-1.1.5-1.1 1.1v6.6" />
    </>
  ),
  check: <path d="m3 8.5 3.4 3.4L13 4.8" />,
  alert: <path d="M8 2 14.5 13.5h-13zM8 6.5v3.3M8 11.8h.01" />,
  sun: (
    <>
      <circle cx="8" cy="8" r="2.8" />
      <path d="M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9" />
    </>
  ),
  moon: <path d="M13 9.6A5.6 5.6 0 0 1 6.4 3a5.6 5.6 0 1 0 6.6 6.6z" />,
  screen: <path d="M2 3h12v8H2zM6 14h4M8 11v3" />,
  key: (
    <>
      <circle cx="5" cy="11" r="3" />
      <path d="m7.2 8.8 6-6M11 5l2 2" />
    </>
  ),
  edit: <path d="M3 13h2.3L13 5.3 10.7 3 3 10.7z" />,
  filter: <path d="M2 3.5h12L9.5 9v4.5l-3-1.5V9z" />,
  live: (
    <>
      <circle cx="8" cy="8" r="2" fill="currentColor" />
      <path d="M4.5 11.5a5 5 0 0 1 0-7M11.5 4.5a5 5 0 0 1 0 7" />
    </>
  ),
} as const satisfies Record<string, ReactNode>;

export type IconName = keyof typeof DRAWN;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {DRAWN[name]}
    </svg>
  );
}

/** The barrel with its bars, and the pawl that keeps it. */
export function Mark({ size = 28 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" fill="none" aria-hidden="true" className="mark">
      <g stroke="currentColor" strokeWidth="2.2" strokeLinecap="round" strokeLinejoin="round">
        <g className="barrel">
          <circle cx="15" cy="17" r="7" />
          <path d="M15 10V4.2M21.1 13.5l5-2.9M21.1 20.5l5 2.9M15 24v5.8M8.9 20.5l-5 2.9M8.9 13.5l-5-2.9" />
        </g>
        <path d="M29 5.5l-6.2 5.2" strokeWidth="2.6" />
      </g>
      <circle cx="15" cy="17" r="2.4" fill="currentColor" />
      <circle cx="29" cy="5.5" r="1.8" fill="currentColor" />
    </svg>
  );
}
