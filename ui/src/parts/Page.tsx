/** What every view is made of: its heading, and what is shown when there is nothing, something wrong, or nothing yet. */
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";
import { Trouble } from "../api/client.ts";
import { Icon, type IconName, Mark } from "./Icon.tsx";

export function Page({
  title,
  name,
  sub,
  actions,
  children,
}: {
  title: ReactNode;
  /** What the window is called, when the title is more than a word. */
  name?: string;
  sub?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  const called = name ?? (typeof title === "string" ? title : "");
  useEffect(() => {
    document.title = called ? `${called} · Windlass` : "Windlass";
  }, [called]);
  return (
    <div className="page">
      <header>
        <h1>{title}</h1>
        {sub && <span className="sub">{sub}</span>}
        {actions && <div className="row wrap push">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <Icon name={icon} size={36} />
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** What went wrong, in words, and a way on. */
export function Wrong({ why, again }: { why: Error; again?: () => void }) {
  const code = why instanceof Trouble && why.status > 0 ? `${why.status} ${why.code}` : undefined;
  return (
    <div className="note" data-kind="trouble" role="alert">
      <Icon name="alert" />
      <p>
        {why.message} {code && <code className="faint">{code}</code>}
      </p>
      {again && (
        <button type="button" className="button small push" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading() {
  return (
    <div className="page" aria-busy="true">
      <div className="loading">
        <Mark size={36} />
        <span className="hidden-label">Loading</span>
      </div>
    </div>
  );
}

export function Failed({ error }: { error: unknown }) {
  return (
    <div className="page">
      <Wrong
        why={error instanceof Error ? error : new Error(String(error))}
        again={() => location.reload()}
      />
    </div>
  );
}

export function Nowhere() {
  return (
    <Page title="Nothing is here">
      <Empty icon="search" title="There is no view at this address">
        <p>
          It may have been shortened or misspelt. <Link to="/runs">All runs</Link> are one step away.
        </p>
      </Empty>
    </Page>
  );
}
