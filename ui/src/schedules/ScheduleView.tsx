/** One schedule: what is next, what was, and runs for times that have passed. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { part, post } from "../api/client.ts";
import { schedule, useMayAct, useRefresh } from "../api/queries.ts";
import type { ScheduleView as Schedule } from "../api/types.ts";
import { Ask, Field } from "../parts/Dialog.tsx";
import { Icon } from "../parts/Icon.tsx";
import { Loading, Page, Wrong } from "../parts/Page.tsx";
import { StateMark } from "../parts/State.tsx";
import { Ago, Lasted, Moment } from "../parts/Time.tsx";
import { whole } from "../parts/time.ts";
import { say } from "../parts/toast.tsx";
import { Remove, TimedActions } from "./actions.tsx";
import "./schedules.css";
import { Matter, Standing } from "./standing.tsx";

export function ScheduleView() {
  const { name } = useParams({ from: "/schedules/$name" });
  const { data, error, refetch } = useQuery(schedule(name));
  if (!data && !error) return <Loading />;
  if (!data)
    return (
      <Page title={name}>
        <Wrong why={error as Error} again={() => void refetch()} />
      </Page>
    );
  return <Shown one={data} />;
}

function Shown({ one }: { one: Schedule }) {
  const mayAct = useMayAct();
  const navigate = useNavigate();
  const [asking, setAsking] = useState<"backfill" | "remove">();
  const close = () => setAsking(undefined);
  return (
    <Page
      name={one.name}
      title={
        <span className="run-title">
          <Link to="/schedules" className="faint">
            Schedules
          </Link>
          <Icon name="right" size={12} /> {one.name}
        </span>
      }
      actions={
        mayAct && (
          <>
            <TimedActions
              kind="schedules"
              one={one}
              first={
                <button type="button" className="button small" onClick={() => setAsking("backfill")}>
                  <Icon name="schedules" size={13} /> Backfill…
                </button>
              }
            />
            <button type="button" className="button small danger" onClick={() => setAsking("remove")}>
              <Icon name="bin" size={13} /> Remove
            </button>
          </>
        )
      }
    >
      <dl className="strip">
        <div>
          <dt>When</dt>
          <dd>{one.words}</dd>
        </div>
        <div>
          <dt>Starts</dt>
          <dd>
            <Link to="/workflows/$name" params={{ name: one.workflow }}>
              {one.workflow}
            </Link>
          </dd>
        </div>
        <div>
          <dt>State</dt>
          <dd>
            <Standing state={one.state} paused={one.paused} />
          </dd>
        </div>
        <div>
          <dt>Runs so far</dt>
          <dd>{whole(one.runs)}</dd>
        </div>
      </dl>
      {(one.trouble || one.paused || "last_error" in one.state) && (
        <div className="note" data-kind={one.paused ? "wait" : "trouble"} data-state="paused">
          <Icon name={one.paused ? "pause" : "alert"} />
          <p>
            <Matter state={one.state} paused={one.paused} trouble={one.trouble} />
          </p>
        </div>
      )}
      <div className="columns">
        <section className="card">
          <header>
            <h2>Next</h2>
          </header>
          {one.next_times.length === 0 && <p className="body quiet">Nothing more is to come.</p>}
          <ol className="short-list">
            {one.next_times.map((at) => (
              <li key={at}>
                <Icon name="schedules" size={13} /> <Moment at={at} />
                <span className="faint push">
                  <Ago at={at} />
                </span>
              </li>
            ))}
          </ol>
        </section>
        <section className="card">
          <header>
            <h2>Runs</h2>
            {one.last_run && (
              <Link to="/runs" search={{ workflow: one.workflow }} className="faint push">
                all runs of {one.workflow}
              </Link>
            )}
          </header>
          {!one.last_run && one.running.length === 0 && (
            <p className="body quiet">It has not started a run yet.</p>
          )}
          <ul className="short-list">
            {one.running.map((key) => (
              <li key={key}>
                <StateMark state="running" bare />
                <Link to="/runs" search={{ key }} className="mono cut">
                  {key}
                </Link>
              </li>
            ))}
            {one.last_run && !one.running.includes(one.last_run.key) && (
              <li>
                <StateMark state={one.last_run.completed ? "completed" : "failed"} bare />
                <Link to="/runs" search={{ key: one.last_run.key }} className="mono cut">
                  {one.last_run.key}
                </Link>
                <span className="faint push">
                  <Ago at={one.last_run.started_at} /> ·{" "}
                  <Lasted from={one.last_run.started_at} to={one.last_run.ended_at} />
                </span>
              </li>
            )}
          </ul>
        </section>
      </div>
      <section className="card">
        <header>
          <h2>History</h2>
        </header>
        {one.history.length === 0 && <p className="body quiet">Nothing has happened to it yet.</p>}
        <ol className="short-list">
          {one.history.toReversed().map((past) => (
            <li key={`${past.at} ${past.words}`}>
              <span className="faint past">
                <Moment at={past.at} />
              </span>
              <span className="past-words">{past.words}</span>
            </li>
          ))}
        </ol>
      </section>
      {asking === "backfill" && <Backfill name={one.name} close={close} />}
      {asking === "remove" && (
        <Remove name={one.name} close={close} after={() => void navigate({ to: "/schedules" })} />
      )}
    </Page>
  );
}

const DAY = 86_400_000;
/** A time as the browser's field for times has it. */
const local = (at: number): string =>
  new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

function Backfill({ name, close }: { name: string; close: () => void }) {
  const [from, setFrom] = useState(() => local(Date.now() - DAY));
  const [to, setTo] = useState(() => local(Date.now()));
  const refresh = useRefresh();
  const path = `schedules/${part(name)}/backfill`;
  const [a, b] = [Date.parse(from), Date.parse(to)];
  const valid = Number.isFinite(a) && Number.isFinite(b) && a < b;
  const body = valid ? { from: new Date(a).toISOString(), to: new Date(b).toISOString() } : {};
  const dry = useQuery({
    queryKey: ["backfill", name, from, to],
    queryFn: () => post<{ times: string[] }>(path, { ...body, dry_run: true }),
    enabled: valid,
    staleTime: 0,
  });
  const times = dry.data?.times ?? [];
  const act = async () => {
    const { times } = await post<{ times: string[] }>(path, body);
    say(`${whole(times.length)} runs of ${name} are wished for.`);
    refresh();
  };
  return (
    <Ask
      title={`Backfill ${name}`}
      verb={
        times.length > 0 ? `Start ${whole(times.length)} ${times.length === 1 ? "run" : "runs"}` : "Start"
      }
      act={act}
      close={close}
      disabled={!valid || times.length === 0}
    >
      <p className="quiet">
        Runs are started for the times in this span that have none. Times that have a run keep it.
      </p>
      <div className="pair">
        <Field label="From">
          <input
            className="input"
            type="datetime-local"
            value={from}
            onChange={(event) => setFrom(event.target.value)}
            required
          />
        </Field>
        <Field label="To, not included" hint={valid ? undefined : "It has to be after the beginning."}>
          <input
            className="input"
            type="datetime-local"
            value={to}
            onChange={(event) => setTo(event.target.value)}
            required
          />
        </Field>
      </div>
      {dry.error && <Wrong why={dry.error} />}
      {dry.data && (
        <div data-dry-run>
          <p>
            <strong>{times.length === 0 ? "No time" : whole(times.length)}</strong>{" "}
            {times.length === 0
              ? "falls into this span."
              : `${times.length === 1 ? "time falls" : "times fall"} into this span:`}
          </p>
          <ol className="times mono quiet">
            {times.slice(0, 8).map((at) => (
              <li key={at}>
                <Moment at={at} />
              </li>
            ))}
            {times.length > 8 && <li>and {whole(times.length - 8)} more</li>}
          </ol>
        </div>
      )}
    </Ask>
  );
}
