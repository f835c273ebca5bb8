/** Short words in the corner about what was done. */
import { type ReactNode, useSyncExternalStore } from "react";
import { Icon, type IconName } from "./Icon.tsx";

interface Toast {
  id: number;
  icon: IconName;
  words: ReactNode;
}

let shown: readonly Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();

function show(next: readonly Toast[]): void {
  shown = next;
  for (const told of listeners) told();
}

export function say(words: ReactNode, icon: IconName = "check"): void {
  const id = ++last;
  show([...shown, { id, icon, words }].slice(-3));
  setTimeout(() => show(shown.filter((toast) => toast.id !== id)), 5_000);
}

const subscribe = (told: () => void) => {
  listeners.add(told);
  return () => listeners.delete(told);
};

export function Toasts() {
  const toasts = useSyncExternalStore(subscribe, () => shown);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map((toast) => (
        <div key={toast.id} className="toast">
          <Icon name={toast.icon} />
          <div>{toast.words}</div>
        </div>
      ))}
    </div>
  );
}
