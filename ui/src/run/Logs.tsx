/** What was logged inside the tasks of a run. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { logs } from "../api/queries.ts";
import type { LogLine } from "../api/types.ts";
import { Empty } from "../parts/Page.tsx";
import { clock, instant } from "../parts/time.ts";

const LEVELS = ["error", "warn", "info", "debug", "trace"];

export function Logs({ run, task, compact = false }: { run: string; task?: string; compact?: boolean }) {
  const { data } = useQuery(logs(run));
  const [level, setLevel] = useState("trace");
  const [text, setText] = useState("");
  const mine = (line: LogLine) =>
    task === undefined || line.task === task || line.task?.startsWith(`${task}[`);
  const most = LEVELS.indexOf(level);
  const lines = (data?.lines ?? []).filter(
    (line) =>
      mine(line) &&
      LEVELS.indexOf(line.level.toLowerCase()) <= most &&
      line.message.toLowerCase().includes(text.toLowerCase()),
  );
  if (compact && lines.length === 0) return null;
  if (!compact && data === null)
    return (
      <Empty icon="runs" title="This server keeps no logs">
        <p>Logs of tasks go where the program sends them.</p>
      </Empty>
    );
  return (
    <div className="logs">
      {compact ? (
        <h3>Logs</h3>
      ) : (
        <div className="row wrap">
          <input
            className="input"
            aria-label="Search the logs"
            placeholder="Search the logs"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <select
            className="input"
            aria-label="Least level"
            value={level}
            onChange={(event) => setLevel(event.target.value)}
          >
            {LEVELS.map((one) => (
              <option key={one} value={one}>
                {one === "trace" ? "all levels" : one === "error" ? "errors" : `${one} and above`}
              </option>
            ))}
          </select>
        </div>
      )}
      {!compact && lines.length === 0 && (
        <Empty icon="runs" title="Nothing was logged">
          <p>
            What a task logs with <code>tracing</code> is kept here, attempt by attempt, if its program
            installs <code>windlass::log_layer()</code>.
          </p>
        </Empty>
      )}
      {lines.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached with the keyboard
        <ol className="json" tabIndex={0} aria-label="Log lines">
          {lines.map((line, index) => (
            <li key={index} data-level={line.level.toLowerCase()}>
              <time className="faint" dateTime={line.at}>
                {clock(instant(line.at))}
              </time>{" "}
              <b>{line.level.toUpperCase()}</b>{" "}
              {task === undefined && line.task && (
                <span className="k">
                  {line.task}
                  {line.attempt ? `#${line.attempt}` : ""}{" "}
                </span>
              )}
              {line.message}
              {Object.entries(line.fields ?? {}).map(([name, value]) => (
                <span key={name} className="k">
                  {" "}
                  {name}={typeof value === "string" ? value : JSON.stringify(value)}
                </span>
              ))}
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}
