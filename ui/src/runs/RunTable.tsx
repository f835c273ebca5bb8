/** The runs that are seen, of however many there are. */
import { Link, useNavigate } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useRef, useState } from "react";
import { hasEnded, type RunLine } from "../api/types.ts";
import { StateMark } from "../parts/State.tsx";
import { Ago, Lasted, Moment } from "../parts/Time.tsx";
import { createdAt } from "../parts/time.ts";
import type { Chosen } from "./chosen.ts";
import type { Shown } from "./RunList.ts";

const NARROW = "(max-width: 760px)";

export function RunTable({
  shown,
  more,
  goOn,
  chosen,
  choose,
  see,
  hold,
  mayAct,
}: {
  shown: Shown;
  more: () => void;
  goOn: () => void;
  chosen: Chosen;
  choose: (id: string, how: "one" | "through") => void;
  see: (first: number, last: number) => void;
  hold: (held: boolean) => void;
  mayAct: boolean;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
  const { rows, next, gone, waits } = shown;
  const narrow = useMedia(NARROW);
  const virtual = useVirtualizer({
    count: rows.length + (next ? 1 : 0),
    getScrollElement: () => scroller.current,
    estimateSize: () => (narrow ? 62 : 38),
    overscan: 12,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: rows have another height on a narrow screen
  useEffect(() => virtual.measure(), [narrow]);
  const items = virtual.getVirtualItems();
  const [first, last] = [virtual.range?.startIndex ?? 0, virtual.range?.endIndex ?? 0];
  useEffect(() => see(first, last), [first, last, see]);
  useEffect(() => {
    if (next && !waits && last >= rows.length - 30) more();
  }, [next, waits, last, rows.length, more]);

  const press = (event: React.KeyboardEvent) => {
    const links = [...(scroller.current?.querySelectorAll<HTMLElement>("[data-run]") ?? [])];
    const row = document.activeElement?.closest("[role=row]");
    const here = links.indexOf(row?.querySelector<HTMLElement>("[data-run]") as HTMLElement);
    const step =
      Number(["j", "ArrowDown"].includes(event.key)) - Number(["k", "ArrowUp"].includes(event.key));
    if (step !== 0 && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      links[Math.min(links.length - 1, Math.max(0, here + step))]?.focus();
    } else if (event.key === "x" && mayAct) {
      const id = links[here]?.dataset.run;
      if (id) choose(id, "one");
    }
  };
  useEffect(() => {
    const enter = (event: KeyboardEvent) => {
      const plain = !event.ctrlKey && !event.metaKey && document.activeElement === document.body;
      if (plain && (event.key === "j" || event.key === "k"))
        scroller.current?.querySelector<HTMLElement>("[data-run]")?.focus();
    };
    window.addEventListener("keydown", enter);
    return () => window.removeEventListener("keydown", enter);
  }, []);

  return (
    <div
      className="runs"
      role="table"
      aria-label="Runs"
      aria-rowcount={next ? -1 : rows.length + 1}
      ref={scroller}
      onKeyDown={press}
      onPointerEnter={() => hold(true)}
      onPointerLeave={() => hold(false)}
    >
      <div role="rowgroup" className="heads">
        <div role="row" className="run-row" aria-rowindex={1}>
          <span role="columnheader">
            <span className="hidden-label">Chosen</span>
          </span>
          {["State", "Workflow", "Key", "Waits for", "Queue", "Started", "Took"].map((name) => (
            <span key={name} role="columnheader">
              {name}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" className="all" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const run = rows[item.index];
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the keyboard has the link in the row
            <div
              key={run?.id ?? "more"}
              role="row"
              aria-rowindex={item.index + 2}
              className="run-row"
              data-gone={run && gone.has(run.id)}
              data-chosen={run && chosen.has(run.id)}
              style={{ transform: `translateY(${item.start}px)`, height: item.size }}
              onClick={(event) => {
                const inert = !(event.target as Element).closest("a, button, input, label");
                if (run && inert && getSelection()?.toString() === "")
                  void navigate({ to: "/runs/$id", params: { id: run.id } });
              }}
            >
              {run ? (
                <Cells run={run} chosen={chosen.has(run.id)} choose={choose} mayAct={mayAct} />
              ) : (
                <span role="cell" className="faint rest">
                  {waits && next ? <Waits next={next} goOn={goOn} /> : "…"}
                </span>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** How far a search has come that has found little, and the way on. */
function Waits({ next, goOn }: { next: string; goOn: () => void }) {
  const at = createdAt(next);
  return (
    <>
      {at === undefined ? (
        "Many runs were looked at"
      ) : (
        <>
          Looked back to <Moment at={new Date(at).toISOString()} />
        </>
      )}
      , and older runs may fit{" "}
      <button type="button" className="button small" onClick={goOn}>
        Go on
      </button>
    </>
  );
}

const Cells = memo(function Cells({
  run,
  chosen,
  choose,
  mayAct,
}: {
  run: RunLine;
  chosen: boolean;
  choose: (id: string, how: "one" | "through") => void;
  mayAct: boolean;
}) {
  return (
    <>
      <span role="cell" className="pick">
        {mayAct && (
          <label>
            <input
              type="checkbox"
              checked={chosen}
              aria-label={`Choose ${run.workflow} ${run.key ?? run.id}`}
              onChange={(event) =>
                choose(run.id, (event.nativeEvent as MouseEvent).shiftKey ? "through" : "one")
              }
            />
          </label>
        )}
      </span>
      <span role="cell" className="what">
        <StateMark state={run.state} />
      </span>
      <span role="cell" className="name cut">
        <Link to="/runs/$id" params={{ id: run.id }} data-run={run.id} title={run.id}>
          {run.workflow}
        </Link>
        {run.generation > 1 && (
          <span className="faint" title={`Opened ${run.generation} times`}>
            {" "}
            ×{run.generation}
          </span>
        )}
      </span>
      <span role="cell" className="key cut mono" title={run.key ?? run.id}>
        {run.key ?? <span className="faint">{run.id.slice(-12)}</span>}
      </span>
      <span role="cell" className="waits cut">
        {run.waits_for ? (
          <span className="quiet" title={run.waits_for}>
            {run.waits_for}
          </span>
        ) : (
          run.tags.map((tag) => (
            <Link
              key={tag}
              to="/runs"
              search={(before) => ({ ...before, tag })}
              className="tag"
              title={`Runs with tag ${tag}`}
            >
              {tag}
            </Link>
          ))
        )}
      </span>
      <span role="cell" className="queue cut quiet">
        {run.queue}
      </span>
      <span role="cell" className="when quiet">
        <Ago at={run.created_at} />
      </span>
      <span role="cell" className="took quiet">
        {run.ended_at || !hasEnded(run.state) ? <Lasted from={run.created_at} to={run.ended_at} /> : null}
      </span>
    </>
  );
});

function useMedia(query: string): boolean {
  const [fits, setFits] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const asked = matchMedia(query);
    const told = () => setFits(asked.matches);
    asked.addEventListener("change", told);
    return () => asked.removeEventListener("change", told);
  }, [query]);
  return fits;
}
