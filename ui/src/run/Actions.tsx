/** The buttons of a run, and what they ask. */
import { Link, useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { post } from "../api/client.ts";
import { useRefresh } from "../api/queries.ts";
import type { Ending, Run, StartedRun } from "../api/types.ts";
import { Ask, Field } from "../parts/Dialog.tsx";
import { Icon } from "../parts/Icon.tsx";
import { say } from "../parts/toast.tsx";
import { type Action, type Offer, offers } from "./actions.ts";
import { eventsOf } from "./drawing.ts";

export interface Asked {
  action: Action;
  /** The event, or the task. */
  what?: string;
}

export function Buttons({ run, ask }: { run: Run; ask: (asked: Asked) => void }) {
  const menu = useRef<HTMLDivElement>(null);
  const all = offers(run);
  const rest = all.filter((offer) => !offer.first);
  return (
    <>
      {all
        .filter((offer) => offer.first)
        .map((offer) => (
          <button
            key={offer.action}
            type="button"
            className={`button ${offer.action === "retry" || offer.action === "resume" || offer.action === "send" ? "primary" : ""} ${offer.danger ? "danger" : ""}`}
            onClick={() => ask({ action: offer.action })}
          >
            <Icon name={offer.icon} size={14} /> {offer.name}
          </button>
        ))}
      <div className="menu">
        <button type="button" className="button icon" aria-label="More actions" popoverTarget="run-menu">
          <Icon name="more" />
        </button>
        <div ref={menu} id="run-menu" popover="auto" className="menu-list">
          {rest.map((offer) => (
            <button
              key={offer.action}
              type="button"
              className={offer.danger ? "danger-text" : undefined}
              onClick={() => {
                menu.current?.hidePopover();
                ask({ action: offer.action });
              }}
            >
              <Icon name={offer.icon} size={14} /> {offer.name}
            </button>
          ))}
        </div>
      </div>
    </>
  );
}

export function ActionDialog({ run, asked, close }: { run: Run; asked: Asked; close: () => void }) {
  const offer = offers(run).find((one) => one.action === asked.action);
  if (!offer) return null;
  switch (asked.action) {
    case "send":
      return <Send run={run} offer={offer} event={asked.what} close={close} />;
    case "fork":
      return <Fork run={run} offer={offer} task={asked.what} close={close} />;
    default:
      return <Steer run={run} offer={offer} close={close} />;
  }
}

const DONE: Partial<Record<Action, string>> = {
  cancel: "It was asked to stop.",
  terminate: "It was ended.",
  pause: "It will hold at the next boundary.",
  resume: "It goes on.",
  retry: "It was opened again.",
  discard: "It was forgotten.",
};

function Steer({ run, offer, close }: { run: Run; offer: Offer; close: () => void }) {
  const [reason, setReason] = useState("");
  const refresh = useRefresh();
  const navigate = useNavigate();
  const wantsReason = offer.danger === true;
  const act = async () => {
    const answer = await post<Ending | null>(`runs/${run.id}/${offer.action}`, wantsReason ? { reason } : {});
    const late = answer?.outcome === "already_ended";
    say(late ? `It had ended before: it is ${answer.state}.` : DONE[offer.action], late ? "alert" : "check");
    if (offer.action === "discard") void navigate({ to: "/runs" });
    refresh();
  };
  return (
    <Ask
      title={`${offer.name} this run`}
      verb={offer.name}
      act={act}
      close={close}
      danger={offer.danger}
      disabled={wantsReason && reason.trim() === ""}
    >
      <p className="quiet">{offer.means}</p>
      {wantsReason && (
        <Field label="Why" hint="Kept with the run, for whoever asks later.">
          <input
            className="input"
            value={reason}
            onChange={(event) => setReason(event.target.value)}
            required
            maxLength={300}
          />
        </Field>
      )}
    </Ask>
  );
}

function Send({ run, offer, event, close }: { run: Run; offer: Offer; event?: string; close: () => void }) {
  const waited = eventsOf(run.waits_for);
  const [name, setName] = useState(event ?? waited[0] ?? "");
  const [text, setText] = useState("null");
  const refresh = useRefresh();
  let problem: string | undefined;
  let payload: unknown;
  try {
    payload = JSON.parse(text);
  } catch (why) {
    problem = `This is not JSON: ${(why as Error).message}`;
  }
  const act = async () => {
    await post(`runs/${run.id}/events`, { name, payload, key: crypto.randomUUID?.() });
    say(`${name} was sent.`, "send");
    refresh();
  };
  return (
    <Ask
      title="Send an event"
      verb="Send"
      act={act}
      close={close}
      disabled={name.trim() === "" || problem !== undefined}
    >
      <p className="quiet">{offer.means}</p>
      <Field label="Event" hint={waited.length > 0 ? `It waits for ${waited.join(", ")}.` : undefined}>
        <input
          className="input mono"
          value={name}
          onChange={(change) => setName(change.target.value)}
          required
          list="waited"
        />
        <datalist id="waited">
          {waited.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </datalist>
      </Field>
      <Field label="What it carries" hint={problem ?? 'As JSON, for instance true, "yes" or {"by": "Ada"}.'}>
        <textarea
          className="input"
          rows={5}
          spellCheck={false}
          value={text}
          aria-invalid={problem !== undefined}
          onChange={(change) => setText(change.target.value)}
        />
      </Field>
    </Ask>
  );
}

function Fork({ run, offer, task, close }: { run: Run; offer: Offer; task?: string; close: () => void }) {
  const names = [...run.tasks.map((one) => one.name), ...run.calls.map((one) => one.name)];
  const [from, setFrom] = useState(task ?? names[0] ?? "");
  const refresh = useRefresh();
  const navigate = useNavigate();
  const act = async () => {
    const started = await post<StartedRun>(`runs/${run.id}/fork`, { task: from });
    say(
      <>
        A new run was started.{" "}
        <Link to="/runs/$id" params={{ id: run.id }}>
          Back to this one
        </Link>
      </>,
      "fork",
    );
    refresh();
    void navigate({ to: "/runs/$id", params: { id: started.id } });
  };
  return (
    <Ask title="Fork this run" verb="Start the fork" act={act} close={close} disabled={from === ""}>
      <p className="quiet">{offer.means}</p>
      <Field label="From" hint="This and everything after it runs again, in the new run.">
        <select className="input" value={from} onChange={(event) => setFrom(event.target.value)}>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </Field>
    </Ask>
  );
}
