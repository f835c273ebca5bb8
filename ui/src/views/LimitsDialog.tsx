/** How much of a queue may be under way, to be changed. */
import { useState } from "react";
import { part, put, remove } from "../api/client.ts";
import { useRefresh } from "../api/queries.ts";
import type { Limits } from "../api/types.ts";
import { Ask, Field } from "../parts/Dialog.tsx";
import { say } from "../parts/toast.tsx";

const COUNTS = [
  ["concurrency", "At once", "Over all processes."],
  ["per_node", "Per node", "In one process."],
  ["per_key", "Per key", "With the same queue key."],
] as const;
const RATES = [
  ["rate", "Rate", "How many may begin"],
  ["key_rate", "Rate per key", "How many with the same queue key may begin"],
] as const;

type Texts = Record<string, string>;

function texts(limits: Limits | undefined): Texts {
  const said: Texts = {};
  for (const [name] of COUNTS) said[name] = String(limits?.[name] ?? "");
  for (const [name] of RATES) {
    said[name] = String(limits?.[name]?.count ?? "");
    said[`${name}_per`] = String(limits?.[name]?.per ?? "60");
  }
  said.ageing = String(limits?.ageing ?? "");
  return said;
}

/** What is sent: a limit that is not given is none. */
export function limitsOf(said: Texts, hold: boolean): Record<string, unknown> {
  const body: Record<string, unknown> = { hold };
  for (const [name] of COUNTS) if (said[name]) body[name] = Number(said[name]);
  for (const [name] of RATES)
    if (said[name]) body[name] = { count: Number(said[name]), per: Number(said[`${name}_per`]) };
  if (said.ageing) body.ageing = Number(said.ageing);
  return body;
}

export function LimitsDialog({ name, limits, close }: { name: string; limits?: Limits; close: () => void }) {
  const [called, setCalled] = useState(name);
  const [said, setSaid] = useState(() => texts(limits));
  const [hold, setHold] = useState(limits?.hold ?? false);
  const refresh = useRefresh();
  const set = (field: string) => (event: React.ChangeEvent<HTMLInputElement>) =>
    setSaid({ ...said, [field]: event.target.value });
  const path = `queues/${part(called)}`;
  const act = async () => {
    const { outcome } = await put<{ outcome: string }>(path, limitsOf(said, hold));
    say(outcome === "unchanged" ? `${called} has these limits already.` : `${called} has other limits now.`);
    refresh();
  };
  const forget = async () => {
    try {
      await remove(path);
      say(`${called} has no limits now.`);
      refresh();
      close();
    } catch (why) {
      say((why as Error).message, "alert");
    }
  };
  const number = (field: string, label: string, least = 1, step: number | "any" = 1) => (
    <input
      className="input"
      type="number"
      inputMode="numeric"
      aria-label={label}
      min={least}
      step={step}
      placeholder="no limit"
      value={said[field]}
      onChange={set(field)}
    />
  );
  return (
    <Ask
      title={name === "" ? "Declare a queue" : `Limits of ${name}`}
      verb="Save"
      act={act}
      close={close}
      disabled={called.trim() === ""}
    >
      {name === "" && (
        <Field label="Name" hint="Runs that are started with this queue are in it.">
          <input
            className="input"
            value={called}
            onChange={(event) => setCalled(event.target.value)}
            required
          />
        </Field>
      )}
      <p className="quiet">What is left empty is not limited. Runs that have begun go on.</p>
      <div className="pair thirds">
        {COUNTS.map(([field, label, hint]) => (
          <Field key={field} label={label} hint={hint}>
            {number(field, label)}
          </Field>
        ))}
      </div>
      {RATES.map(([field, label, hint]) => (
        <Field key={field} label={label} hint={`${hint} in a span of so many seconds.`}>
          <div className="row">
            {number(field, `${label}: how many`)}
            <span className="quiet">in</span>
            {number(`${field}_per`, `${label}: seconds`, 0, "any")}
            <span className="quiet">s</span>
          </div>
        </Field>
      ))}
      <Field
        label="Ageing"
        hint="After so many seconds of waiting, a run is more urgent by one step of priority."
      >
        {number("ageing", "Ageing in seconds", 0, "any")}
      </Field>
      <label className="row">
        <input type="checkbox" checked={hold} onChange={(event) => setHold(event.target.checked)} />
        Runs that have begun count until they end, also while they wait
      </label>
      {limits && (
        <button type="button" className="button bare danger" onClick={forget}>
          Take back all limits
        </button>
      )}
    </Ask>
  );
}
