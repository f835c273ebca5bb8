/** What can be done to a schedule or a trigger. */
import { type ReactNode, useState } from "react";
import { part, post, remove } from "../api/client.ts";
import { useRefresh } from "../api/queries.ts";
import type { ScheduleState } from "../api/types.ts";
import { Ask, Field } from "../parts/Dialog.tsx";
import { Icon } from "../parts/Icon.tsx";
import { say } from "../parts/toast.tsx";

interface Timed {
  name: string;
  paused?: string | null;
  state: ScheduleState;
}

export function TimedActions({
  kind,
  one,
  first,
}: {
  kind: "schedules" | "triggers";
  one: Timed;
  first?: ReactNode;
}) {
  const [asking, setAsking] = useState<"pause">();
  const refresh = useRefresh();
  const path = `${kind}/${part(one.name)}`;
  const now = kind === "schedules" ? "trigger" : "ask";
  const act = (deed: string, words: string) => async () => {
    try {
      await post(`${path}/${deed}`);
      say(words);
    } catch (why) {
      say((why as Error).message, "alert");
    }
    refresh();
  };
  const held = one.state.kind === "tripped" || one.state.kind === "backoff";
  return (
    <div className="row ends wrap">
      {held && (
        <button type="button" className="button small" onClick={act("reset", `${one.name} begins anew.`)}>
          <Icon name="retry" size={13} /> Reset
        </button>
      )}
      {first}
      <button
        type="button"
        className="button small"
        onClick={act(
          now,
          kind === "schedules" ? `A run of ${one.name} is on its way.` : `${one.name} is asked.`,
        )}
      >
        <Icon name="play" size={13} /> {kind === "schedules" ? "Run now" : "Ask now"}
      </button>
      {one.paused !== null && one.paused !== undefined ? (
        <button
          type="button"
          className="button small primary"
          onClick={act("resume", `${one.name} goes on.`)}
        >
          <Icon name="play" size={13} /> Resume
        </button>
      ) : (
        <button type="button" className="button small" onClick={() => setAsking("pause")}>
          <Icon name="pause" size={13} /> Pause
        </button>
      )}
      {asking === "pause" && <Pause path={path} name={one.name} close={() => setAsking(undefined)} />}
    </div>
  );
}

function Pause({ path, name, close }: { path: string; name: string; close: () => void }) {
  const [note, setNote] = useState("");
  const refresh = useRefresh();
  const act = async () => {
    await post(`${path}/pause`, { note });
    say(`${name} is paused.`);
    refresh();
  };
  return (
    <Ask title={`Pause ${name}`} verb="Pause" act={act} close={close} disabled={note.trim() === ""}>
      <p className="quiet">It starts nothing more by itself. Runs that are under way go on.</p>
      <Field label="Why" hint="Shown beside it until it is resumed.">
        <input
          className="input"
          value={note}
          onChange={(event) => setNote(event.target.value)}
          maxLength={300}
        />
      </Field>
    </Ask>
  );
}

export function Remove({ name, close, after }: { name: string; close: () => void; after: () => void }) {
  const [said, setSaid] = useState("");
  const refresh = useRefresh();
  const act = async () => {
    await remove(`schedules/${part(name)}`);
    say(`${name} was removed.`, "bin");
    after();
    refresh();
  };
  return (
    <Ask title={`Remove ${name}`} verb="Remove" act={act} close={close} danger disabled={said !== name}>
      <p className="quiet">
        It ends for good. Runs that are under way go on. A program that declares it brings it back at its next
        start.
      </p>
      <Field label={`Write ${name} to say that it is this one`}>
        <input
          className="input mono"
          value={said}
          onChange={(event) => setSaid(event.target.value)}
          autoComplete="off"
        />
      </Field>
    </Ask>
  );
}
