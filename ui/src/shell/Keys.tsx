/** What the keyboard does on every view. */
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Dialog } from "../parts/Dialog.tsx";
import { VIEWS } from "./places.ts";

type Shown = "palette" | "help" | undefined;

/** Whether keys are words here and not commands. */
function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

export function useKeys() {
  const [shown, setShown] = useState<Shown>();
  const navigate = useNavigate();
  const going = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setShown("palette");
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "?") setShown("help");
      else if (event.key === "/") {
        const filter = document.querySelector<HTMLElement>("[data-filter]");
        if (filter) {
          event.preventDefault();
          filter.focus();
        }
      } else if (event.key === "g") going.current = event.timeStamp;
      else if (event.timeStamp - going.current < 1_200) {
        going.current = Number.NEGATIVE_INFINITY;
        const view = VIEWS.find((one) => one.key === event.key);
        if (view) void navigate({ to: view.to });
      }
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [navigate]);
  return {
    shown,
    close: () => setShown(undefined),
    openPalette: () => setShown("palette"),
    openHelp: () => setShown("help"),
  };
}

const KEYS: readonly [string, string][] = [
  ["Ctrl K", "Go to a view, a workflow or a run"],
  ["/", "Filter the list"],
  ["j  k", "Next and previous run in the list"],
  ["x", "Choose the run for a bulk action"],
  ["Enter", "Open the run"],
  ["?", "This list"],
  ...VIEWS.map((view): [string, string] => [`g ${view.key}`, view.name]),
];

export function Keys({ close }: { close: () => void }) {
  return (
    <Dialog title="Keyboard" close={close}>
      <dl className="keys">
        {KEYS.map(([key, words]) => (
          <div key={key}>
            <dt>
              {key.split(/\s+/).map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
      <div className="ends">
        <button type="button" className="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
