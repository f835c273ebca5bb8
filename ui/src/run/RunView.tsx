/** One run: where it stands and why, as a graph, along time, step by step, and what can be done. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useMemo, useState } from "react";
import { address, part } from "../api/client.ts";
import { run as runOf, useMayAct } from "../api/queries.ts";
import { hasEnded, type Run } from "../api/types.ts";
import { Icon } from "../parts/Icon.tsx";
import { Copy } from "../parts/Json.tsx";
import { Loading, Page, Wrong } from "../parts/Page.tsx";
import { StateIcon, StateMark, words } from "../parts/State.tsx";
import { Tabs } from "../parts/Tabs.tsx";
import { Lasted, Moment, useNow } from "../parts/Time.tsx";
import { one, type Search } from "../search.ts";
import { ActionDialog, type Asked, Buttons } from "./Actions.tsx";
import { drawingOf, eventsOf } from "./drawing.ts";
import { Inspector } from "./Inspector.tsx";
import { Logs } from "./Logs.tsx";
import { Events, Record, Steps } from "./RunParts.tsx";
import { stepsOf, underWay } from "./steps.ts";
import { Timeline } from "./Timeline.tsx";
import "./run.css";

const GraphView = lazy(() => import("../graph/GraphView.tsx"));

const TABS = ["graph", "timeline", "steps", "events", "logs", "record"] as const;
type Tab = (typeof TABS)[number];

export function RunView() {
  const { id } = useParams({ from: "/runs/$id" });
  const shown = useQuery({
    ...runOf(id),
    refetchInterval: (query) => (query.state.data && hasEnded(query.state.data.state) ? 15_000 : 2_000),
  });
  useWatch(id, shown.data);
  if (shown.data) return <Shown key={id} run={shown.data} trouble={shown.error} />;
  if (shown.error) {
    return (
      <Page title="Run" name="Run">
        <Wrong why={shown.error} again={() => void shown.refetch()} />
        <p>
          <Link to="/runs" className="link">
            All runs
          </Link>
        </p>
      </Page>
    );
  }
  return <Loading />;
}

/** Asks again whenever something is recorded of the run. */
function useWatch(id: string, run: Run | undefined): void {
  const queries = useQueryClient();
  const generation = run?.generation;
  const over = run ? hasEnded(run.state) : false;
  // A run that is opened again is watched again.
  useEffect(() => {
    if (over || generation === undefined) return;
    let soon: ReturnType<typeof setTimeout> | undefined;
    const source = new EventSource(address(`runs/${part(id)}/watch`));
    const told = () => {
      soon ??= setTimeout(() => {
        soon = undefined;
        void queries.invalidateQueries({ queryKey: ["run", id] });
      }, 200);
    };
    for (const name of ["state", "step", "ended"]) source.addEventListener(name, told);
    return () => {
      clearTimeout(soon);
      source.close();
    };
  }, [id, generation, over, queries]);
}

function Shown({ run, trouble }: { run: Run; trouble: Error | null }) {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate({ from: "/runs/$id" });
  const mayAct = useMayAct();
  const [asked, setAsked] = useState<Asked>();
  const tab: Tab = TABS.find((name) => name === one(search.tab)) ?? "graph";
  const steps = useMemo(() => stepsOf(run), [run]);
  const step = steps.find((each) => each.id === one(search.step));
  const set = (change: Search) =>
    void navigate({ search: (before: Search) => ({ ...before, ...change }), replace: true });
  const choose = (id: string | undefined) => set({ step: id === step?.id ? undefined : id });
  const drawing = useMemo(() => drawingOf(run), [run]);
  const last = run.key ?? run.id.slice(-12);
  return (
    <Page
      name={`${run.workflow} ${last}`}
      title={
        <span className="run-title">
          <Link to="/runs" className="faint">
            Runs
          </Link>
          <Icon name="right" size={12} />
          <Link to="/workflows/$name" params={{ name: run.workflow }}>
            {run.workflow}
          </Link>
          {run.key && <code className="quiet cut">{run.key}</code>}
          <span className="state-pill" data-state={run.state}>
            <StateMark state={run.state} />
          </span>
        </span>
      }
      actions={mayAct && <Buttons run={run} ask={setAsked} />}
    >
      {trouble && <Wrong why={trouble} />}
      <Facts run={run} />
      <Why run={run} send={mayAct ? (event) => setAsked({ action: "send", what: event }) : undefined} />
      <div className="run-views" data-inspecting={step !== undefined}>
        <div className="stack tight">
          <Tabs
            label="Views of the run"
            tabs={TABS.map((name) => ({
              id: name,
              name,
              count: name === "steps" ? steps.length : undefined,
            }))}
            chosen={tab}
            choose={(name) => set({ tab: name === "graph" ? undefined : name })}
          />
          <div className="card view" data-tab={tab} role="tabpanel" aria-label={tab}>
            {tab === "graph" &&
              (drawing.boxes.length > 0 ? (
                <Suspense fallback={<Loading />}>
                  <GraphView
                    drawing={drawing}
                    chosen={step?.id}
                    choose={choose}
                    label={`Graph of ${run.workflow}`}
                  />
                </Suspense>
              ) : (
                <p className="body quiet">No process has taken it up yet that knows what it follows.</p>
              ))}
            {tab === "timeline" && <Timeline run={run} chosen={step?.id} choose={choose} />}
            {tab === "steps" && <Steps steps={steps} chosen={step?.id} choose={choose} />}
            {tab === "events" && <Events run={run} />}
            {tab === "logs" && <Logs run={run.id} />}
            {tab === "record" && <Record run={run} />}
          </div>
        </div>
        {step && (
          <Inspector
            run={run}
            step={step}
            close={() => choose(undefined)}
            fork={mayAct ? () => setAsked({ action: "fork", what: step.name }) : undefined}
          />
        )}
      </div>
      {asked && <ActionDialog run={run} asked={asked} close={() => setAsked(undefined)} />}
    </Page>
  );
}

function Facts({ run }: { run: Run }) {
  return (
    <dl className="strip">
      <Fact name="Run">
        <code title={run.id}>{run.id}</code>
        <Copy text={run.id} what="the id" />
      </Fact>
      <Fact name="Started">
        <Moment at={run.created_at} />
      </Fact>
      <Fact name={run.ended_at ? "Took" : "For"}>
        <Lasted from={run.created_at} to={run.ended_at} />
      </Fact>
      <Fact name="Queue">
        <Link to="/runs" search={{ queue: run.queue }}>
          {run.queue}
        </Link>
        {run.queue_key && <span className="faint"> {run.queue_key}</span>}
      </Fact>
      {run.priority !== 5 && <Fact name="Priority">{run.priority}</Fact>}
      {run.version && (
        <Fact name="Version">
          <code title={run.version}>{run.version.slice(0, 12)}</code>
        </Fact>
      )}
      {run.tags.length > 0 && (
        <Fact name="Tags">
          {run.tags.map((tag) => (
            <Link key={tag} to="/runs" search={{ tag }} className="tag">
              {tag}
            </Link>
          ))}
        </Fact>
      )}
      {run.generation > 1 && <Fact name="Opened">{run.generation} times</Fact>}
      {run.recoveries > 0 && <Fact name="Taken over">{run.recoveries} times</Fact>}
      {run.parent && <Other name="Parent" id={run.parent} />}
      {run.forked_from && <Other name="Fork of" id={run.forked_from} />}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Other({ name, id }: { name: string; id: string }) {
  return (
    <Fact name={name}>
      <Link to="/runs/$id" params={{ id }} className="mono">
        {id.slice(-12)}
      </Link>
    </Fact>
  );
}

/** Why it stands as it does, in words. */
function Why({ run, send }: { run: Run; send?: (event: string) => void }) {
  const now = useNow();
  const { verdict } = run;
  if (verdict) {
    const failed = verdict.kind !== "cancelled";
    return (
      <div className="note" data-kind={failed ? "trouble" : "wait"} data-state={run.state}>
        <StateIcon state={run.state} />
        <div className="stack tight">
          <p>{sentence(verdict.words, run)}</p>
          {verdict.failure?.chain.map((cause) => (
            <p key={cause} className="quiet">
              caused by: {cause}
            </p>
          ))}
        </div>
        {verdict.step && <ToStep run={run} name={verdict.step} />}
      </div>
    );
  }
  if (run.waits_for) {
    const events = eventsOf(run.waits_for);
    return (
      <div className="note" data-kind="wait" data-state={run.state}>
        <StateIcon state={run.state} />
        <p>
          <strong className="cap">{words(run.state)}</strong>: it waits for {inWords(run, now)}.
        </p>
        {send &&
          events.map((event) => (
            <button
              key={event}
              type="button"
              className="button small primary push"
              onClick={() => send(event)}
            >
              <Icon name="send" size={13} /> Send {event}
            </button>
          ))}
      </div>
    );
  }
  const doing = hasEnded(run.state) ? [] : underWay(run, now);
  if (doing.length === 0) return null;
  return (
    <div className="note" data-kind="wait" data-state={run.state}>
      <StateIcon state={run.state} />
      <p>{doing.join(" · ")}</p>
    </div>
  );
}

/** The verdict without what the page says already: which run it is. */
function sentence(words: string, run: Run): string {
  const start = `run ${run.id} (${run.workflow}) `;
  const rest = words.startsWith(start) ? words.slice(start.length) : words;
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}

/** What it waits for, with its time as people here write it. */
function inWords(run: Run, now: number): React.ReactNode {
  const said = run.waits_for ?? "";
  if (!run.waits_until) return said;
  const seconds = Math.round((Date.parse(run.waits_until) - now) / 1_000);
  const [before] = said.split(run.waits_until);
  return (
    <>
      {before}
      <Moment at={run.waits_until} />
      {seconds > 0 && seconds < 120 && <span className="quiet"> ({seconds} s)</span>}
    </>
  );
}

function ToStep({ run, name }: { run: Run; name: string }) {
  const step = stepsOf(run).find((each) => each.name === name.replace(/\[\d+\]$/, ""));
  if (!step) return null;
  return (
    <Link
      to="/runs/$id"
      params={{ id: run.id }}
      search={(before) => ({ ...before, step: step.id })}
      className="button small push"
    >
      Look at {step.name}
    </Link>
  );
}
