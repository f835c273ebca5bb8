/** All runs: found, watched, and steered many at a time. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { get } from "../api/client.ts";
import { useChanges } from "../api/live.ts";
import { counts, queues, useMayAct, workflows } from "../api/queries.ts";
import { type RunPage, STATES, type State } from "../api/types.ts";
import { Icon } from "../parts/Icon.tsx";
import { Empty, Wrong } from "../parts/Page.tsx";
import { StateIcon, words } from "../parts/State.tsx";
import { count } from "../parts/time.ts";
import type { Search } from "../search.ts";
import { StartRun } from "../workflows/StartRun.tsx";
import { BulkBar } from "./BulkBar.tsx";
import { type Chosen, through, toggled } from "./chosen.ts";
import { FilterBar } from "./FilterBar.tsx";
import { type Condition, type Filter, isEmpty, query, read } from "./filter.ts";
import { RunList } from "./RunList.ts";
import { RunTable } from "./RunTable.tsx";
import "./runs.css";

export function RunsView() {
  const search = useSearch({ strict: false }) as Search;
  const key = JSON.stringify(read(search));
  const filter = useMemo(() => JSON.parse(key) as Filter, [key]);
  return <Runs key={key} filter={filter} />;
}

function Runs({ filter }: { filter: Filter }) {
  const navigate = useNavigate({ from: "/runs" });
  const mayAct = useMayAct();
  const list = useMemo(
    () => new RunList((after, limit) => get<RunPage>("runs", { ...query(filter, Date.now()), after, limit })),
    [filter],
  );
  const shown = useSyncExternalStore(list.subscribe, list.snapshot);
  const [chosen, setChosen] = useState<Chosen>(new Set());
  const [everything, setEverything] = useState(false);
  const [starting, setStarting] = useState(false);
  const pointed = useRef<string>(undefined);
  const seen = useRef<[number, number]>([0, 0]);
  const held = useRef(false);
  const [hold, setHold] = useState(false);

  useEffect(() => void list.more(), [list]);
  useChanges(() => void list.refresh(...seen.current, held.current || !document.hasFocus()));
  const see = useCallback((first: number, last: number) => {
    seen.current = [first, last];
  }, []);
  const keep = useCallback((now: boolean) => {
    held.current = now;
    setHold(now);
  }, []);
  const more = useCallback(() => void list.more(), [list]);
  const goOn = useCallback(() => void list.goOn(), [list]);
  const choose = useCallback(
    (id: string, how: "one" | "through") => {
      const ids = how === "through" ? through(list.snapshot().rows, pointed.current, id) : [id];
      pointed.current = id;
      setEverything(false);
      setChosen((before) => toggled(before, ids));
    },
    [list],
  );
  const change = (name: Condition, value: string | undefined) =>
    void navigate({ search: (before: Search) => ({ ...before, [name]: value }) });

  const known = {
    workflow: useQuery(workflows).data?.map((one) => one.name) ?? [],
    queue: useQuery(queues).data?.map((one) => one.name) ?? [],
    tag: [...new Set(shown.rows.slice(0, 500).flatMap((row) => row.tags))].sort(),
  };
  const top = () => {
    document.querySelector(".runs")?.scrollTo({ top: 0 });
    void list.restart();
  };
  const isEmptyList = shown.next === null && shown.rows.length === 0;
  return (
    <div className="page fill">
      <PageHead
        start={mayAct ? () => setStarting(true) : undefined}
        fresh={
          shown.fresh > 0 ? (
            <button type="button" className="fresh" onClick={top}>
              <Icon name="up" size={13} /> {shown.fresh}
              {shown.freshAndMore && "+"} new
            </button>
          ) : hold && shown.rows.length > 0 ? (
            <span className="held faint">holds still while you point at it</span>
          ) : null
        }
      />
      <FilterBar filter={filter} change={change} known={known} />
      <StateTabs
        filter={filter}
        choose={(state) => void navigate({ search: (before: Search) => ({ ...before, state }) })}
      />
      {shown.error && <Wrong why={shown.error} again={() => void list.restart()} />}
      {isEmptyList ? (
        <div className="card">
          <NoRuns filter={filter} forget={() => void navigate({ search: {} })} />
        </div>
      ) : (
        <div className="card runs-card">
          <RunTable
            shown={shown}
            more={more}
            goOn={goOn}
            chosen={everything ? new Set(shown.rows.map((row) => row.id)) : chosen}
            choose={choose}
            see={see}
            hold={keep}
            mayAct={mayAct}
          />
        </div>
      )}
      {(chosen.size > 0 || everything) && (
        <BulkBar
          filter={filter}
          rows={shown.rows}
          chosen={chosen}
          everything={everything}
          chooseAll={() => setEverything(true)}
          clear={() => {
            setChosen(new Set());
            setEverything(false);
          }}
          done={() => void list.restart()}
        />
      )}
      {starting && <StartRun close={() => setStarting(false)} />}
    </div>
  );
}

function PageHead({ start, fresh }: { start: (() => void) | undefined; fresh: React.ReactNode }) {
  useEffect(() => {
    document.title = "Runs · Windlass";
  }, []);
  return (
    <header>
      <h1>Runs</h1>
      <span aria-live="polite">{fresh}</span>
      {start && (
        <button type="button" className="button primary push" onClick={start}>
          <Icon name="play" size={13} /> Start a run
        </button>
      )}
    </header>
  );
}

function StateTabs({ filter, choose }: { filter: Filter; choose: (state: State[] | undefined) => void }) {
  const { state: _, ...rest } = filter;
  const minute = Math.floor(Date.now() / 60_000) * 60_000;
  const found = useQuery(counts(query({ ...rest, state: [] }, minute))).data;
  const total = found?.reduce((sum, one) => sum + one.count, 0);
  const or = (more: boolean | undefined) => (more ? "+" : "");
  return (
    <div className="tabs states" role="group" aria-label="States">
      <button type="button" aria-pressed={filter.state.length === 0} onClick={() => choose(undefined)}>
        All{" "}
        {total !== undefined && (
          <span className="count">
            {count(total)}
            {or(found?.some((one) => one.estimated))}
          </span>
        )}
      </button>
      {STATES.map((state) => {
        const here = found?.find((one) => one.state === state);
        const is = filter.state.includes(state);
        return (
          <button
            key={state}
            type="button"
            aria-pressed={is}
            title="With Ctrl: beside the others"
            onClick={(event) => {
              if (!event.ctrlKey && !event.metaKey)
                choose(is && filter.state.length === 1 ? undefined : [state]);
              else choose(is ? filter.state.filter((one) => one !== state) : [...filter.state, state]);
            }}
          >
            <span data-state={state} className="state">
              <StateIcon state={state} size={14} />
            </span>
            <span className="cap">{words(state)}</span>
            {found && (
              <span className="count">
                {count(here?.count ?? 0)}
                {or(here?.estimated)}
              </span>
            )}
          </button>
        );
      })}
    </div>
  );
}

function NoRuns({ filter, forget }: { filter: Filter; forget: () => void }) {
  if (!isEmpty(filter)) {
    return (
      <Empty icon="filter" title="No run fits">
        <p>
          Nothing that is kept here fits all of these conditions. Runs that ended long ago may have been
          thrown away.
        </p>
        <button type="button" className="button" onClick={forget}>
          Forget the conditions
        </button>
      </Empty>
    );
  }
  return (
    <Empty icon="runs" title="Nothing has run yet">
      <p>Runs appear here as soon as a program starts them, or a schedule, a trigger, or you.</p>
      <pre className="json">engine.start(etl::workflow(), input).await?</pre>
    </Empty>
  );
}
