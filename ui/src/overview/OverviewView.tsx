/** How all is doing, at a glance. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense } from "react";
import { get } from "../api/client.ts";
import { queues as declared, health, nodes, overview as overviewOf } from "../api/queries.ts";
import type { Overview, RunPage, State } from "../api/types.ts";
import { Icon } from "../parts/Icon.tsx";
import { Empty, Page, Wrong } from "../parts/Page.tsx";
import { StateIcon, StateMark } from "../parts/State.tsx";
import { Ago, Lasted } from "../parts/Time.tsx";
import { count, instant, span, whole } from "../parts/time.ts";
import "./overview.css";
import { Sheet } from "../parts/Sheet";
import { figuresOf, useTrail } from "./figures.ts";

const Chart = lazy(() => import("./Chart.tsx"));

export function OverviewView() {
  const overview = useQuery(overviewOf);
  const ill = useQuery(health).data;
  const known = overview.data;
  return (
    <Page title="Overview">
      {overview.error && <Wrong why={overview.error} again={() => void overview.refetch()} />}
      {ill && ill.wrong.length > 0 && (
        <Link to="/health" className="note ill" data-kind="trouble">
          <Icon name="alert" />
          <p>
            {ill.wrong[0]}
            {ill.wrong.length > 1 && <strong> and {ill.wrong.length - 1} more</strong>}
          </p>
          <Icon name="right" />
        </Link>
      )}
      {known ? <Figures overview={known} /> : <div className="figures-space" aria-busy={!overview.error} />}
      <div className="columns">
        <Runs title="Running now" states={["running"]} empty="Nothing runs right now." />
        <Runs title="Failed last" states={["failed", "abandoned"]} empty="Nothing has failed." />
      </div>
      <div className="columns">
        <Runs
          title="Waits for somebody"
          states={["paused", "blocked"]}
          empty="Nothing is paused or blocked."
        />
        <Crew />
      </div>
    </Page>
  );
}

function Figures({ overview }: { overview: Overview }) {
  const figures = figuresOf(overview);
  const trail = useTrail(figures);
  const { points } = overview.series;
  const times = points.map((point) => instant(point.at) / 1_000);
  return (
    <>
      <div className="tiles">
        <Tile name="Running" value={count(figures.running)} to={["running"]} state="running" />
        <Tile
          name="Waiting"
          value={count(figures.waiting)}
          note={figures.oldest > 1 ? `oldest ${span(figures.oldest * 1_000)}` : undefined}
          to={["pending"]}
          state="pending"
        />
        <Tile name="Completed / min" value={count(figures.perMinute)} to={["completed"]} state="completed" />
        <Tile
          name="Failed, last hour"
          value={count(figures.failed)}
          note={figures.share}
          to={["failed", "abandoned"]}
          state="failed"
          alarm={figures.failed > 0}
        />
        <Tile
          name="Late by"
          value={figures.lateness < 0.05 ? "–" : span(figures.lateness * 1_000)}
          note="the latest that waits for a time"
          state="suspended"
          alarm={figures.lateness > 30}
        />
      </div>
      <div className="columns wide-first">
        <section className="card">
          <header>
            <h2>Throughput</h2>
            <span className="faint">runs a minute, in the last hour</span>
          </header>
          <Suspense fallback={<div className="chart-space" />}>
            <Chart
              label={`Throughput of the last hour: ${whole(figures.completed)} completed, ${whole(figures.failed)} failed`}
              times={times}
              series={[
                {
                  name: "Completed",
                  colour: "--s-completed",
                  values: points.map((point) => point.completed),
                },
                { name: "Started", colour: "--s-running", values: points.map((point) => point.started) },
                { name: "Failed", colour: "--s-failed", values: points.map((point) => point.failed) },
              ]}
            />
          </Suspense>
        </section>
        <section className="card">
          <header>
            <h2>Now</h2>
            <span className="faint">while this page is open</span>
          </header>
          <Suspense fallback={<div className="chart-space" />}>
            <Chart
              label={`Running ${figures.running}, waiting ${figures.waiting}, late by ${figures.lateness} seconds`}
              times={trail.map((point) => point.at)}
              series={[
                { name: "Waiting", colour: "--s-suspended", values: trail.map((point) => point.waiting) },
                { name: "Running", colour: "--s-running", values: trail.map((point) => point.running) },
              ]}
            />
          </Suspense>
        </section>
      </div>
      <Queues overview={overview} />
    </>
  );
}

function Queues({ overview }: { overview: Overview }) {
  const limits = useQuery(declared).data;
  if (overview.queues.length === 0) return null;
  const most = Math.max(10, ...overview.queues.map((queue) => queue.waiting + queue.running));
  return (
    <section className="card">
      <header>
        <h2>Queues</h2>
        <Link to="/queues" className="faint push">
          all queues
        </Link>
      </header>
      <Sheet label="Queues" kind="bare">
        <table>
          <thead>
            <tr>
              <th>Queue</th>
              <th className="depth-cell">Depth</th>
              <th className="number">Running</th>
              <th className="number">Waiting</th>
              <th className="number">Oldest</th>
            </tr>
          </thead>
          <tbody>
            {overview.queues.slice(0, 8).map((queue) => {
              const limit = limits?.find((one) => one.name === queue.name)?.limits.concurrency;
              return (
                <tr key={queue.name}>
                  <td className="main">
                    <Link
                      to="/runs"
                      search={{ queue: queue.name, state: ["pending", "running", "suspended"] }}
                    >
                      {queue.name}
                    </Link>
                  </td>
                  <td className="depth-cell">
                    <div className="depth" aria-hidden="true">
                      <i data-state="running" style={{ width: `${(queue.running / most) * 100}%` }} />
                      <i data-state="suspended" style={{ width: `${(queue.waiting / most) * 100}%` }} />
                    </div>
                  </td>
                  <td className="number">
                    {whole(queue.running)}
                    {limit ? <span className="faint"> of {whole(limit)}</span> : null}
                  </td>
                  <td className="number">{whole(queue.waiting)}</td>
                  <td className="number quiet">{queue.oldest_s ? span(queue.oldest_s * 1_000) : "–"}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Sheet>
    </section>
  );
}

function Tile(props: {
  name: string;
  value: string;
  note?: string;
  to?: State[];
  state: State;
  alarm?: boolean;
}) {
  const { name, value, note, to, state, alarm } = props;
  const inside = (
    <>
      <span className="tile-name">
        <span className="state" data-state={state}>
          <StateIcon state={state} size={13} />
        </span>
        {name}
      </span>
      <strong>{value}</strong>
      <span className="faint cut">{note ?? "\u00a0"}</span>
    </>
  );
  const look = { className: "tile card", "data-alarm": alarm };
  return to ? (
    <Link to="/runs" search={{ state: to }} {...look}>
      {inside}
    </Link>
  ) : (
    <div {...look}>{inside}</div>
  );
}

const SHOWN = 8;

function Runs({ title, states, empty }: { title: string; states: State[]; empty: string }): ReactNode {
  const { data, error } = useQuery({
    queryKey: ["some-runs", states],
    queryFn: ({ signal }) => get<RunPage>("runs", { state: states, limit: SHOWN }, signal),
    meta: { live: true },
  });
  return (
    <section className="card">
      <header>
        <h2>{title}</h2>
        <Link to="/runs" search={{ state: states }} className="faint push">
          all of them
        </Link>
      </header>
      {error && <Wrong why={error} />}
      {data?.runs.length === 0 && <p className="body quiet">{empty}</p>}
      <ul className="short-list">
        {data?.runs.map((run) => (
          <li key={run.id}>
            <StateMark state={run.state} bare />
            <Link to="/runs/$id" params={{ id: run.id }} className="cut">
              <b>{run.workflow}</b> <span className="mono quiet">{run.key ?? run.id.slice(-12)}</span>
            </Link>
            <span className="faint push">
              {run.ended_at ? <Ago at={run.ended_at} /> : <Lasted from={run.created_at} />}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Crew() {
  const { data } = useQuery(nodes);
  const alive = data?.filter((node) => node.health === "alive") ?? [];
  return (
    <section className="card">
      <header>
        <h2>Nodes</h2>
        <Link to="/nodes" className="faint push">
          all nodes
        </Link>
      </header>
      {data?.length === 0 && (
        <Empty icon="nodes" title="No process runs an engine">
          <p>Start one: a program that launches an engine on this database.</p>
        </Empty>
      )}
      <ul className="short-list">
        {alive.slice(0, SHOWN).map((node) => (
          <li key={node.id}>
            <StateMark state="completed" bare />
            <span className="cut">
              <b>{node.name ?? node.host}</b> <span className="quiet">pid {node.pid}</span>
            </span>
            <span className="faint push">
              {node.running} running · <Ago at={node.heartbeat_at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
