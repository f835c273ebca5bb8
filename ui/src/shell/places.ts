import type { IconName } from "../parts/Icon.tsx";

interface Place {
  to: string;
  name: string;
  icon: IconName;
  /** What follows `g` on the keyboard. */
  key: string;
  /** Whether only an admin may look. */
  admin?: boolean;
}

export const VIEWS = [
  { to: "/", name: "Overview", icon: "overview", key: "o" },
  { to: "/runs", name: "Runs", icon: "runs", key: "r" },
  { to: "/workflows", name: "Workflows", icon: "workflows", key: "w" },
  { to: "/schedules", name: "Schedules", icon: "schedules", key: "s" },
  { to: "/triggers", name: "Triggers", icon: "triggers", key: "t" },
  { to: "/queues", name: "Queues", icon: "queues", key: "q" },
  { to: "/nodes", name: "Nodes", icon: "nodes", key: "n" },
  { to: "/health", name: "Health", icon: "health", key: "h" },
  { to: "/audit", name: "Audit", icon: "audit", key: "a", admin: true },
] as const satisfies readonly Place[];

/** Where somebody with this role may go. */
export const viewsFor = (role: string | undefined): readonly (typeof VIEWS)[number][] =>
  VIEWS.filter((view) => !("admin" in view) || role === undefined || role === "admin");
