import type { ReactNode } from "react";

/** A table that is moved sideways where it has no room: with the keyboard too, so it can be focused. */
export function Sheet({ label, kind, children }: { label: string; kind?: string; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached with the keyboard
    <section className={kind ? `sheet ${kind}` : "sheet"} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
