/** When what happened: attempts, retries and the waits between them, on one scale. */
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Run } from "../api/types.ts";
import { Icon } from "../parts/Icon.tsx";
import { StateIcon, words } from "../parts/State.tsx";
import { useNow } from "../parts/Time.tsx";
import { clock, instant, span } from "../parts/time.ts";
import { ticks } from "./scale.ts";
import { type Bar, linesOf } from "./steps.ts";

export function Timeline({
  run,
  chosen,
  choose,
}: {
  run: Run;
  chosen?: string;
  choose: (id: string) => void;
}) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const lines = useMemo(() => linesOf(run, open), [run, open]);
  const now = useNow();
  const from = instant(run.created_at);
  const bars = lines.flatMap((line) => line.bars);
  const last = Math.max(
    from + 1,
    ...bars.map((bar) => bar.to ?? 0),
    ...(run.ended_at ? [instant(run.ended_at)] : []),
  );
  const to = run.ended_at ? last : Math.max(last, now);
  const whole = Math.max(1, to - from);
  const at = (time: number) => `${Math.min(100, Math.max(0, ((time - from) / whole) * 100))}%`;
  const width = (bar: Bar) => `${(Math.max(0, Math.min(bar.to ?? to, to) - bar.from) / whole) * 100}%`;
  const toggle = (id: string) =>
    setOpen((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  if (lines.length === 0) return <p className="quiet body">Nothing has begun yet.</p>;
  return (
    <div className="timeline">
      <div className="scale" aria-hidden="true">
        <span className="faint">{clock(from)}</span>
        <div className="track">
          {ticks(whole).map((tick) => (
            <i key={tick} style={{ left: `${(tick / whole) * 100}%` }}>
              <span>{tick === 0 ? "" : `+${span(tick)}`}</span>
            </i>
          ))}
        </div>
      </div>
      <ul>
        {lines.map((line) => (
          <li key={line.id} data-chosen={line.id === chosen} data-depth={line.depth}>
            <div className="line-name">
              {line.folds > 0 && (
                <button
                  type="button"
                  className="fold"
                  aria-expanded={open.has(line.id)}
                  aria-label={`Elements of ${line.name}`}
                  onClick={() => toggle(line.id)}
                >
                  <Icon name={open.has(line.id) ? "down" : "right"} size={12} />
                </button>
              )}
              <button
                type="button"
                className="pick-line"
                onClick={() => choose(line.id.replace(/\[\d+\]$/, ""))}
              >
                <span className="state" data-state={line.state}>
                  <StateIcon state={line.state} size={14} />
                </span>
                <span className="cut" title={line.name}>
                  {line.name}
                </span>
                <span className="hidden-label">{words(line.state)}</span>
              </button>
              {line.child && (
                <Link
                  to="/runs/$id"
                  params={{ id: line.child }}
                  className="faint"
                  aria-label={`The run of ${line.name}`}
                >
                  <Icon name="right" size={12} />
                </Link>
              )}
            </div>
            <div className="track">
              {line.bars.map((bar) => (
                <span
                  key={`${bar.from} ${bar.state}`}
                  className="span"
                  data-state={bar.state}
                  data-kind={line.kind}
                  data-open={bar.to === null}
                  title={`${bar.words} · ${clock(bar.from)} · ${span((bar.to ?? now) - bar.from)}`}
                  style={{ left: at(bar.from), width: width(bar) }}
                />
              ))}
              {line.bars.length > 0 && <Took bars={line.bars} now={now} from={from} whole={whole} to={to} />}
            </div>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** How long all of it took, beside the last bar: where there is room for it. */
function Took({
  bars,
  now,
  from,
  whole,
  to,
}: {
  bars: Bar[];
  now: number;
  from: number;
  whole: number;
  to: number;
}) {
  const [begin, end] = [
    Math.min(...bars.map((bar) => bar.from)),
    Math.max(...bars.map((bar) => bar.to ?? to)),
  ];
  const open = bars.some((bar) => bar.to === null);
  const [left, right] = [(begin - from) / whole, (end - from) / whole];
  const text = span((open ? now : end) - begin);
  const style =
    right < 0.88
      ? { left: `calc(${right * 100}% + 6px)` }
      : left > 0.12
        ? { right: `calc(${(1 - left) * 100}% + 6px)` }
        : { right: "6px" };
  return (
    <span className="took" data-inside={right >= 0.88 && left <= 0.12} style={style}>
      {text}
    </span>
  );
}
