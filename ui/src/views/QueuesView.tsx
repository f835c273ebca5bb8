/** All queues that were declared: what is in them, and how much of it may be under way. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { part, post } from "../api/client.ts";
import { nodes, overview, queues, useMayAct, useRefresh } from "../api/queries.ts";
import type { Limits, Queue } from "../api/types.ts";
import { Icon } from "../parts/Icon.tsx";
import { Empty, Loading, Page, Wrong } from "../parts/Page.tsx";
import { StateIcon } from "../parts/State.tsx";
import { span, whole } from "../parts/time.ts";
import { say } from "../parts/toast.tsx";
import { LimitsDialog } from "./LimitsDialog.tsx";
import "./views.css";

export function QueuesView() {
  const { data, error, refetch } = useQuery(queues);
  const loads = useQuery(overview).data?.queues ?? [];
  const mayAct = useMayAct();
  const [editing, setEditing] = useState<{ name: string; limits?: Limits }>();
  const crew = useQuery(nodes).data?.filter((node) => node.health === "alive");
  const served = crew && new Set(crew.flatMap((node) => node.queues));
  if (!data && !error) return <Loading />;
  const others = loads.filter((load) => !data?.some((queue) => queue.name === load.name));
  return (
    <Page
      title="Queues"
      sub={data && `${data.length}`}
      actions={
        mayAct && (
          <button type="button" className="button" onClick={() => setEditing({ name: "" })}>
            Declare a queue
          </button>
        )
      }
    >
      {error && <Wrong why={error} again={() => void refetch()} />}
      {data?.length === 0 && (
        <div className="card">
          <Empty icon="queues" title="No queue was declared">
            <p>
              Runs are in the queue that they are started with. A queue that was not declared has no limits.
            </p>
            <pre className="json">
              {'engine.queue("emails").concurrency(50).rate(100, per_second()).await?'}
            </pre>
          </Empty>
        </div>
      )}
      {data && data.length > 0 && (
        <div className="cards">
          {data.map((queue) => (
            <Card
              key={queue.name}
              queue={queue}
              isServed={served?.has(queue.name) ?? true}
              edit={mayAct ? () => setEditing(queue) : undefined}
            />
          ))}
        </div>
      )}
      {others.length > 0 && (
        <section className="card">
          <header>
            <h2>Without limits</h2>
            <span className="faint">queues that nobody has declared</span>
          </header>
          <ul className="short-list">
            {others.map((load) => (
              <li key={load.name}>
                <Link to="/runs" search={{ queue: load.name }} className="cut">
                  <b>{load.name}</b>
                </Link>
                <span className="quiet push">
                  {whole(load.running)} running · {whole(load.waiting)} waiting
                </span>
                {mayAct && (
                  <button
                    type="button"
                    className="button small"
                    onClick={() => setEditing({ name: load.name, limits: undefined })}
                  >
                    Limit
                  </button>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
      {editing && (
        <LimitsDialog name={editing.name} limits={editing.limits} close={() => setEditing(undefined)} />
      )}
    </Page>
  );
}

function Card({ queue, isServed, edit }: { queue: Queue; isServed: boolean; edit?: () => void }) {
  const refresh = useRefresh();
  const { limits } = queue;
  const full = limits.concurrency ? queue.running / limits.concurrency : undefined;
  const toggle = async () => {
    try {
      await post(`queues/${part(queue.name)}/${queue.paused ? "resume" : "pause"}`);
      say(
        queue.paused
          ? `${queue.name} goes on.`
          : `Nothing of ${queue.name} begins now. What has begun goes on.`,
      );
    } catch (why) {
      say((why as Error).message, "alert");
    }
    refresh();
  };
  return (
    <section className="card queue-card" aria-label={`Queue ${queue.name}`}>
      <header>
        <h2 className="cut">
          <Link to="/runs" search={{ queue: queue.name }}>
            {queue.name}
          </Link>
        </h2>
        {queue.paused && (
          <span className="state" data-state="paused">
            <StateIcon state="paused" /> paused
          </span>
        )}
        {edit && (
          <div className="row push">
            <button
              type="button"
              className={`button small ${queue.paused ? "primary" : ""}`}
              onClick={toggle}
            >
              <Icon name={queue.paused ? "play" : "pause"} size={13} /> {queue.paused ? "Resume" : "Pause"}
            </button>
            <button
              type="button"
              className="button small"
              onClick={edit}
              aria-label={`Limits of ${queue.name}`}
            >
              <Icon name="edit" size={13} /> Limits
            </button>
          </div>
        )}
      </header>
      <div className="body stack tight">
        <div className="numbers">
          <Figure name="waiting" value={whole(queue.depth)} />
          <Figure
            name="oldest"
            value={queue.oldest === null || queue.oldest === undefined ? "–" : span(queue.oldest * 1_000)}
          />
          <Figure
            name="running"
            value={whole(queue.running)}
            of={limits.concurrency ? `of ${whole(limits.concurrency)}` : undefined}
          />
          <Figure name="ended / min" value={whole(queue.ended_per_minute)} />
        </div>
        {full !== undefined && (
          <div className="bar" data-state={full >= 1 ? "blocked" : "running"}>
            <i style={{ width: `${Math.min(1, full) * 100}%` }} />
          </div>
        )}
        {!isServed && (
          <p className="matter">
            No process serves it: start one with <code>.queue("{queue.name}", …)</code>.
          </p>
        )}
        <ul className="limits">
          {inWords(limits).map((words) => (
            <li key={words} className="tag">
              {words}
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

function Figure({ name, value, of }: { name: string; value: string; of?: string }) {
  return (
    <div>
      <strong>{value}</strong> {of && <span className="faint">{of}</span>}
      <div className="faint">{name}</div>
    </div>
  );
}

function inWords(limits: Limits): string[] {
  const rate = (one: { count: number; per: number }) => `${whole(one.count)} in ${span(one.per * 1_000)}`;
  const words = [
    limits.concurrency && `${whole(limits.concurrency)} at once`,
    limits.per_node && `${whole(limits.per_node)} per node`,
    limits.per_key && `${whole(limits.per_key)} per key`,
    limits.rate && rate(limits.rate),
    limits.key_rate && `${rate(limits.key_rate)} per key`,
    limits.ageing && `ages every ${span(limits.ageing * 1_000)}`,
    limits.hold && "holds while parked",
  ].filter((one): one is string => typeof one === "string");
  return words.length > 0 ? words : ["no limits"];
}
