/** A value as JSON, coloured, with a button that copies it. */
import { type ReactNode, useMemo, useState } from "react";
import { Icon } from "./Icon.tsx";

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;
/** Beyond this, colours cost more than they tell. */
const LARGE = 60_000;

function coloured(text: string): ReactNode[] {
  if (text.length > LARGE) return [text];
  const parts: ReactNode[] = [];
  let done = 0;
  for (const found of text.matchAll(TOKEN)) {
    const [all, string, colon, number] = found;
    parts.push(text.slice(done, found.index));
    const kind = string ? (colon ? "k" : "s") : number ? "n" : "w";
    parts.push(
      <span key={found.index} className={kind}>
        {all}
      </span>,
    );
    done = found.index + all.length;
  }
  parts.push(text.slice(done));
  return parts;
}

export function Json({ value, label }: { value: unknown; label: string }) {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? "null", [value]);
  const shown = useMemo(() => coloured(text), [text]);
  return (
    <div className="json-box">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached with the keyboard */}
      <pre className="json" tabIndex={0} role="region" aria-label={label}>
        {shown}
      </pre>
      <Copy text={text} what={label} />
    </div>
  );
}

export function Copy({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_200);
  };
  return (
    <button
      type="button"
      className="button bare icon small copy"
      onClick={copy}
      aria-label={`Copy ${what}`}
      title={`Copy ${what}`}
    >
      <Icon name={done ? "check" : "copy"} size={14} />
    </button>
  );
}
