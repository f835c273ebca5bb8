/** What is asked of the server, and how long it is good. */
import { keepPreviousData, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { get, part, type Query, Trouble } from "./client.ts";
import type {
  Count,
  Grid,
  Health,
  LogLine,
  Node,
  Overview,
  PendingEvent,
  Queue,
  Run,
  RunDocument,
  Schedule,
  ScheduleView,
  Session,
  Statistics,
  Trigger,
  Workflow,
  WorkflowLine,
} from "./types.ts";

const live = { live: true };

/** Nothing, where a server does not know the question. */
async function orNothing<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (why) {
    if (why instanceof Trouble && (why.isMissing || why.status === 405)) return null;
    throw why;
  }
}

export const session = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => get<Session>("session", {}, signal),
  staleTime: 60_000,
});

export const workflows = queryOptions({
  queryKey: ["workflows"],
  queryFn: async ({ signal }) =>
    (await get<{ workflows: WorkflowLine[] }>("workflows", {}, signal)).workflows,
  staleTime: 15_000,
});

export const workflow = (name: string, version?: string) =>
  queryOptions({
    queryKey: ["workflow", name, version],
    queryFn: ({ signal }) => get<Workflow>(`workflows/${part(name)}`, { version }, signal),
    staleTime: 15_000,
  });

export const run = (id: string) =>
  queryOptions({
    queryKey: ["run", id],
    queryFn: ({ signal }) => get<Run>(`runs/${part(id)}`, {}, signal),
    meta: live,
  });

/** All that is recorded; `mark` is another when more is. */
export const document = (id: string, mark: string) =>
  queryOptions({
    queryKey: ["document", id, mark],
    queryFn: ({ signal }) => get<RunDocument>(`runs/${part(id)}/document`, {}, signal),
  });

export const pendingEvents = (id: string) =>
  queryOptions({
    queryKey: ["events", id],
    queryFn: async ({ signal }) =>
      (await get<{ events: PendingEvent[] }>(`runs/${part(id)}/events`, {}, signal)).events,
    meta: live,
  });

export const counts = (filter: Query) =>
  queryOptions({
    queryKey: ["counts", filter],
    queryFn: async ({ signal }) => (await get<{ counts: Count[] }>("runs/counts", filter, signal)).counts,
    meta: live,
    placeholderData: keepPreviousData,
  });

export const schedules = queryOptions({
  queryKey: ["schedules"],
  queryFn: async ({ signal }) => (await get<{ schedules: Schedule[] }>("schedules", {}, signal)).schedules,
  meta: live,
});

export const schedule = (name: string) =>
  queryOptions({
    queryKey: ["schedule", name],
    queryFn: ({ signal }) => get<ScheduleView>(`schedules/${part(name)}`, {}, signal),
    meta: live,
  });

export const triggers = queryOptions({
  queryKey: ["triggers"],
  queryFn: async ({ signal }) => (await get<{ triggers: Trigger[] }>("triggers", {}, signal)).triggers,
  meta: live,
});

export const queues = queryOptions({
  queryKey: ["queues"],
  queryFn: async ({ signal }) => (await get<{ queues: Queue[] }>("queues", {}, signal)).queues,
  meta: live,
});

export const nodes = queryOptions({
  queryKey: ["nodes"],
  queryFn: async ({ signal }) => (await get<{ nodes: Node[] }>("nodes", {}, signal)).nodes,
  meta: live,
});

export const health = queryOptions({
  queryKey: ["health"],
  queryFn: ({ signal }) => get<Health>("health", {}, signal),
  refetchInterval: 10_000,
});

export const overview = queryOptions({
  queryKey: ["overview"],
  queryFn: ({ signal }) => get<Overview>("overview", {}, signal),
  meta: live,
});

export const statistics = (name: string) =>
  queryOptions({
    queryKey: ["statistics", name],
    queryFn: ({ signal }) => get<Statistics>(`workflows/${part(name)}/statistics`, {}, signal),
    // It reads many runs, and is about all of them: one more changes little.
    refetchInterval: 15_000,
  });

export const grid = (name: string) =>
  queryOptions({
    queryKey: ["grid", name],
    queryFn: ({ signal }) => get<Grid>(`workflows/${part(name)}/grid`, { limit: 40 }, signal),
    refetchInterval: 5_000,
  });

/** Null from a server that keeps no logs. */
export const logs = (run: string) =>
  queryOptions({
    queryKey: ["logs", run],
    queryFn: ({ signal }): Promise<{ lines: LogLine[] } | null> =>
      orNothing(get(`runs/${part(run)}/logs`, {}, signal)),
    meta: live,
  });

/** Whether who looks may also change something. A server without keys lets everybody. */
export function useMayAct(): boolean {
  const { data } = useQuery(session);
  return data?.role !== "viewer";
}

/** Asks again for all that is on the screen. */
export function useRefresh(): () => void {
  const client = useQueryClient();
  return () => void client.invalidateQueries();
}
