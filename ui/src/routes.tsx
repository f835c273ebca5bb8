/** Which view stands at which path. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouteComponent,
} from "@tanstack/react-router";
import { base } from "./base.ts";
import { Failed, Loading, Nowhere } from "./parts/Page.tsx";
import { RunsView } from "./runs/RunsView.tsx";
import { parseSearch, type Search, stringifySearch } from "./search.ts";
import { Shell } from "./shell/Shell.tsx";

const root = createRootRoute({ component: Shell, notFoundComponent: Nowhere });
const search = (said: Record<string, unknown>): Search => said as Search;
const view = <P extends string>(path: P, component: RouteComponent) =>
  createRoute({ getParentRoute: () => root, path, component, validateSearch: search });

const routes = [
  view(
    "/",
    lazyRouteComponent(() => import("./overview/OverviewView.tsx"), "OverviewView"),
  ),
  view("/runs", RunsView),
  view(
    "/runs/$id",
    lazyRouteComponent(() => import("./run/RunView.tsx"), "RunView"),
  ),
  view(
    "/workflows",
    lazyRouteComponent(() => import("./workflows/WorkflowsView.tsx"), "WorkflowsView"),
  ),
  view(
    "/workflows/$name",
    lazyRouteComponent(() => import("./workflows/WorkflowView.tsx"), "WorkflowView"),
  ),
  view(
    "/schedules",
    lazyRouteComponent(() => import("./schedules/SchedulesView.tsx"), "SchedulesView"),
  ),
  view(
    "/schedules/$name",
    lazyRouteComponent(() => import("./schedules/ScheduleView.tsx"), "ScheduleView"),
  ),
  view(
    "/triggers",
    lazyRouteComponent(() => import("./views/TriggersView.tsx"), "TriggersView"),
  ),
  view(
    "/queues",
    lazyRouteComponent(() => import("./views/QueuesView.tsx"), "QueuesView"),
  ),
  view(
    "/nodes",
    lazyRouteComponent(() => import("./views/NodesView.tsx"), "NodesView"),
  ),
  view(
    "/health",
    lazyRouteComponent(() => import("./views/HealthView.tsx"), "HealthView"),
  ),
  view(
    "/audit",
    lazyRouteComponent(() => import("./views/AuditView.tsx"), "AuditView"),
  ),
] as const;

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: base,
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  defaultPendingComponent: Loading,
  defaultErrorComponent: Failed,
  defaultNotFoundComponent: Nowhere,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
