/** What can be done to the runs that are chosen. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { post, Trouble } from "../api/client.ts";
import { useRefresh } from "../api/queries.ts";
import type { BulkAction, RunLine } from "../api/types.ts";
import { Ask, Field } from "../parts/Dialog.tsx";
import { Icon, type IconName } from "../parts/Icon.tsx";
import { Wrong } from "../parts/Page.tsx";
import { whole } from "../parts/time.ts";
import { say } from "../parts/toast.tsx";
import type { Chosen } from "./chosen.ts";
import { body, type Filter, inWords } from "./filter.ts";

interface Deed {
  action: BulkAction;
  icon: IconName;
  name: string;
  done: string;
  means: string;
  danger?: boolean;
}

const DEEDS: readonly Deed[] = [
  {
    action: "retry",
    icon: "retry",
    name: "Retry",
    done: "opened again",
    means:
      "Runs that ended without completing are opened again. What has completed is kept, the rest runs again.",
  },
  {
    action: "pause",
    icon: "pause",
    name: "Pause",
    done: "paused",
    means: "Runs that have not ended begin nothing new until they are resumed.",
  },
  { action: "resume", icon: "play", name: "Resume", done: "resumed", means: "Paused runs go on." },
  {
    action: "cancel",
    icon: "stop",
    name: "Cancel",
    done: "asked to stop",
    means: "Runs that have not ended are asked to stop, and what they have done is undone if they say how.",
    danger: true,
  },
  {
    action: "discard",
    icon: "bin",
    name: "Discard",
    done: "forgotten",
    means:
      "Runs that have ended are forgotten, with all that is recorded of them. This cannot be taken back.",
    danger: true,
  },
];

export function BulkBar(props: {
  filter: Filter;
  rows: readonly RunLine[];
  chosen: Chosen;
  everything: boolean;
  chooseAll: () => void;
  clear: () => void;
  done: () => void;
}) {
  const { filter, chosen, everything, chooseAll, clear, done } = props;
  const [deed, setDeed] = useState<Deed>();
  return (
    <div className="bulk" role="region" aria-label="Bulk actions">
      <strong className="nowrap">{everything ? "All that fit" : `${whole(chosen.size)} chosen`}</strong>
      {!everything && (
        <button type="button" className="link" onClick={chooseAll}>
          all that fit the filter
        </button>
      )}
      <div className="row wrap push">
        {DEEDS.map((one) => (
          <button
            key={one.action}
            type="button"
            className={`button small ${one.danger ? "danger" : ""}`}
            onClick={() => setDeed(one)}
          >
            <Icon name={one.icon} size={13} /> {one.name}
          </button>
        ))}
        <button type="button" className="button bare icon small" aria-label="Choose none" onClick={clear}>
          <Icon name="close" size={14} />
        </button>
      </div>
      {deed && everything && (
        <OnFilter deed={deed} filter={filter} close={() => setDeed(undefined)} after={both(clear, done)} />
      )}
      {deed && !everything && (
        <OnChosen deed={deed} ids={[...chosen]} close={() => setDeed(undefined)} after={both(clear, done)} />
      )}
    </div>
  );
}

const both = (a: () => void, b: () => void) => () => {
  a();
  b();
};
const wantsReason = (deed: Deed): boolean => deed.action === "cancel" || deed.action === "discard";

function Why({ reason, set }: { reason: string; set: (reason: string) => void }) {
  return (
    <Field label="Why" hint="Kept with the runs, for whoever asks later.">
      <input
        className="input"
        value={reason}
        onChange={(event) => set(event.target.value)}
        required
        maxLength={300}
      />
    </Field>
  );
}

/** The whole filter: the server does it, and counts before. */
function OnFilter({
  deed,
  filter,
  close,
  after,
}: {
  deed: Deed;
  filter: Filter;
  close: () => void;
  after: () => void;
}) {
  const [reason, setReason] = useState("");
  const refresh = useRefresh();
  // What is counted is what is done: both mean the same time.
  const [now] = useState(() => Date.now());
  const asked = {
    filter: body({ ...filter, until: filter.until ?? new Date(now).toISOString() }, now),
    action: deed.action,
  };
  const dry = useQuery({
    queryKey: ["bulk", asked],
    queryFn: () => post<{ count: number; more: boolean }>("runs/bulk", { ...asked, dry_run: true }),
    staleTime: 0,
    gcTime: 0,
  });
  const many =
    dry.data &&
    `${dry.data.more ? "more than " : ""}${whole(dry.data.count)} ${dry.data.count === 1 ? "run" : "runs"}`;
  const act = async () => {
    const { done, passed_over } = await post<{ done: number; passed_over: number }>("runs/bulk", {
      ...asked,
      reason,
    });
    say(`${whole(done)} ${deed.done}${passed_over > 0 ? `; ${whole(passed_over)} had moved on` : ""}`);
    refresh();
    after();
  };
  return (
    <Ask
      title={`${deed.name} all that fit`}
      verb={many ? `${deed.name} ${many}` : deed.name}
      act={act}
      close={close}
      danger={deed.danger}
      disabled={!dry.data || dry.data.count === 0 || (wantsReason(deed) && reason.trim() === "")}
    >
      <p className="quiet">{deed.means}</p>
      <dl className="facts">
        <dt>Filter</dt>
        <dd>{inWords(filter)}</dd>
        <dt>Would be done to</dt>
        <dd data-dry-run>{dry.error ? "–" : (many ?? "counting…")}</dd>
      </dl>
      {dry.error && <Wrong why={dry.error} />}
      {wantsReason(deed) && <Why reason={reason} set={setReason} />}
    </Ask>
  );
}

const AT_ONCE = 6;

/** Some runs, by id: one after the other, a few at once. */
function OnChosen({
  deed,
  ids,
  close,
  after,
}: {
  deed: Deed;
  ids: string[];
  close: () => void;
  after: () => void;
}) {
  const [reason, setReason] = useState("");
  const [progress, setProgress] = useState<number>();
  const refresh = useRefresh();
  const act = async () => {
    let [done, passed] = [0, 0];
    const left = [...ids];
    const work = async () => {
      for (let id = left.pop(); id !== undefined; id = left.pop()) {
        if (await does(deed, id, reason)) done++;
        else passed++;
        setProgress((done + passed) / ids.length);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    say(
      `${whole(done)} ${deed.done}${passed > 0 ? `; ${whole(passed)} did not stand so that it could be done` : ""}`,
    );
    refresh();
    after();
  };
  return (
    <Ask
      title={`${deed.name} ${whole(ids.length)} ${ids.length === 1 ? "run" : "runs"}`}
      verb={deed.name}
      act={act}
      close={close}
      danger={deed.danger}
      disabled={wantsReason(deed) && reason.trim() === ""}
    >
      <p className="quiet">{deed.means} The others stay as they are.</p>
      {wantsReason(deed) && <Why reason={reason} set={setReason} />}
      {progress !== undefined && (
        <div className="bar" role="progressbar" aria-label="Done" aria-valuenow={Math.round(progress * 100)}>
          <i style={{ width: `${progress * 100}%` }} />
        </div>
      )}
    </Ask>
  );
}

/** Whether it was done. A run that has moved on is no error. */
async function does(deed: Deed, id: string, reason: string): Promise<boolean> {
  try {
    const answer = await post<{ outcome?: string } | null>(
      `runs/${id}/${deed.action}`,
      wantsReason(deed) ? { reason } : {},
    );
    return answer?.outcome !== "already_ended";
  } catch (why) {
    if (why instanceof Trouble && (why.status === 409 || why.status === 404)) return false;
    throw why;
  }
}
