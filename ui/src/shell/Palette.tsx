/** One field that leads anywhere: views, workflows, runs by id, key or tag. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import { schedules, workflows } from "../api/queries.ts";
import { Icon, type IconName } from "../parts/Icon.tsx";
import { VIEWS } from "./places.ts";

const RUN_ID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

interface Way {
  icon: IconName;
  name: string;
  kind: string;
  go: () => void;
}

export function Palette({ close }: { close: () => void }) {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const known = useQuery(workflows).data;
  const timed = useQuery(schedules).data;
  useEffect(() => dialog.current?.showModal(), []);

  const ways = useMemo(() => {
    const said = text.trim();
    const go =
      (to: string, search: Record<string, string> = {}) =>
      () => {
        close();
        void navigate({ to, search });
      };
    const all: Way[] = [
      ...VIEWS.map((view) => ({ icon: view.icon, name: view.name, kind: "view", go: go(view.to) })),
      ...(known ?? []).map((one) => ({
        icon: "workflows" as const,
        name: one.name,
        kind: "workflow",
        go: go(`/workflows/${encodeURIComponent(one.name)}`),
      })),
      ...(timed ?? []).map((one) => ({
        icon: "schedules" as const,
        name: one.name,
        kind: "schedule",
        go: go(`/schedules/${encodeURIComponent(one.name)}`),
      })),
    ];
    if (said === "") return all;
    const found = all.filter((way) => `${way.name} ${way.kind}`.toLowerCase().includes(said.toLowerCase()));
    if (RUN_ID.test(said)) found.unshift({ icon: "runs", name: said, kind: "run", go: go(`/runs/${said}`) });
    found.push(
      { icon: "key", name: `Runs with key ${said}`, kind: "runs", go: go("/runs", { key: said }) },
      { icon: "filter", name: `Runs with tag ${said}`, kind: "runs", go: go("/runs", { tag: said }) },
    );
    return found;
  }, [text, known, timed, navigate, close]);

  const chosen = Math.min(at, ways.length - 1);
  const press = (event: React.KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setAt((chosen + step + ways.length) % ways.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      ways[chosen]?.go();
    }
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="Go to" onClose={close}>
      <input
        className="input"
        role="combobox"
        aria-expanded="true"
        aria-controls="ways"
        aria-activedescendant={`way-${chosen}`}
        aria-label="Go to a view, a workflow, or a run by its id, key or tag"
        placeholder="A view, a workflow, or a run by its id, key or tag"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      <div id="ways" role="listbox" aria-label="Places" className="menu-list">
        {ways.map((way, index) => (
          <button
            key={`${way.kind} ${way.name}`}
            id={`way-${index}`}
            type="button"
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            onClick={way.go}
            onPointerMove={() => setAt(index)}
          >
            <Icon name={way.icon} /> <span className="cut">{way.name}</span>
            <span className="faint push">{way.kind}</span>
          </button>
        ))}
      </div>
    </dialog>
  );
}
