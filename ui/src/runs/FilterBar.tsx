/** Conditions as chips, and a field that completes the next one. */
import { useId, useRef, useState } from "react";
import { Icon } from "../parts/Icon.tsx";
import { CONDITIONS, type Condition, type Filter } from "./filter.ts";
import { type Known, type Suggestion, suggest } from "./suggest.ts";

export function FilterBar({
  filter,
  change,
  known,
}: {
  filter: Filter;
  change: (condition: Condition, value: string | undefined) => void;
  known: Known;
}) {
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const id = useId();
  const said = CONDITIONS.filter((name) => filter[name] !== undefined);
  const ways = open ? suggest(text, known) : [];
  const chosen = Math.min(at, ways.length - 1);

  const write = (next: string) => {
    setText(next);
    setAt(0);
    setOpen(true);
  };
  const take = (way: Suggestion) => {
    if (way.kind === "condition") write(`${way.condition}:`);
    else {
      change(way.condition, way.value);
      setText("");
      setAt(0);
      setOpen(false);
    }
    field.current?.focus();
  };
  const press = (event: React.KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const way = ways[chosen];
    if (step !== 0) {
      event.preventDefault();
      if (!open) setOpen(true);
      else setAt((chosen + step + ways.length) % ways.length);
    } else if ((event.key === "Enter" || (event.key === "Tab" && text !== "")) && way) {
      event.preventDefault();
      take(way);
    } else if (event.key === "Escape") {
      if (open) setOpen(false);
      else field.current?.blur();
    } else if (event.key === "Backspace" && text === "") {
      const last = said.at(-1);
      if (last) change(last, undefined);
    }
  };
  return (
    <search className="filter-bar">
      <Icon name="filter" size={14} />
      {said.map((name) => (
        <span key={name} className="chip">
          <span className="faint">{name}</span>
          <span className="cut">{filter[name]}</span>
          <button
            type="button"
            onClick={() => change(name, undefined)}
            aria-label={`Remove ${name} ${filter[name]}`}
          >
            <Icon name="close" size={12} />
          </button>
        </span>
      ))}
      <input
        ref={field}
        data-filter
        role="combobox"
        aria-expanded={ways.length > 0}
        aria-controls={id}
        aria-autocomplete="list"
        aria-activedescendant={ways.length > 0 ? `${id}-${chosen}` : undefined}
        aria-label="Filter runs by workflow, queue, tag, key or time"
        placeholder={said.length > 0 ? "" : "Filter by workflow, queue, tag, key, time…"}
        value={text}
        onChange={(event) => write(event.target.value)}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={press}
        spellCheck={false}
        autoComplete="off"
      />
      {said.length === 0 && text === "" && <kbd>/</kbd>}
      <div id={id} role="listbox" aria-label="Suggestions" className="menu-list" hidden={ways.length === 0}>
        {ways.map((way, index) => (
          <button
            key={way.kind === "condition" ? way.condition : `${way.condition}:${way.value}`}
            id={`${id}-${index}`}
            type="button"
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            // The field keeps the focus.
            onPointerDown={(event) => event.preventDefault()}
            onPointerMove={() => setAt(index)}
            onClick={() => take(way)}
          >
            <span className="condition">{way.condition}</span>
            <span className={way.kind === "condition" ? "faint cut" : "cut"}>
              {way.kind === "condition" ? way.hint : way.value}
            </span>
          </button>
        ))}
      </div>
    </search>
  );
}
