/** The frame of every view: where one can go, whether what is seen is live, and who looks. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Trouble } from "../api/client.ts";
import { listen, type Standing, useStanding } from "../api/live.ts";
import { health, session } from "../api/queries.ts";
import { Icon, type IconName, Mark } from "../parts/Icon.tsx";
import { Toasts } from "../parts/toast.tsx";
import { Keys, useKeys } from "./Keys.tsx";
import { LogIn } from "./LogIn.tsx";
import { Palette } from "./Palette.tsx";
import "./shell.css";
import { viewsFor } from "./places.ts";
import { ThemeSwitch } from "./ThemeSwitch.tsx";
import { Who } from "./Who.tsx";

export function Shell() {
  const who = useQuery(session);
  if (who.error instanceof Trouble && who.error.status === 401) return <LogIn why={who.error} />;
  return <Frame />;
}

function Frame() {
  const queries = useQueryClient();
  useEffect(() => listen(queries), [queries]);
  const [open, setOpen] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  // biome-ignore lint/correctness/useExhaustiveDependencies: whoever went somewhere has seen the menu
  useEffect(() => setOpen(false), [path]);
  const keys = useKeys();
  const role = useQuery(session).data?.role;
  return (
    <div className="frame">
      <a className="skip" href="#main">
        Skip to the view
      </a>
      <header className="top">
        <button
          type="button"
          className="button bare icon"
          aria-label="Menu"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          <Icon name="menu" />
        </button>
        <Link to="/" className="brand">
          <Mark size={24} /> Windlass
        </Link>
        <button
          type="button"
          className="button bare icon push"
          aria-label="Go to…"
          onClick={keys.openPalette}
        >
          <Icon name="search" />
        </button>
      </header>
      <aside className="side" data-open={open}>
        <Link to="/" className="brand">
          <Mark /> Windlass
        </Link>
        <button type="button" className="goto" onClick={keys.openPalette}>
          <Icon name="search" size={14} /> Go to… <kbd>Ctrl K</kbd>
        </button>
        <nav aria-label="Views">
          {viewsFor(role).map((view) => (
            <Link
              key={view.to}
              to={view.to}
              activeOptions={{ exact: view.to === "/", includeSearch: false }}
              activeProps={{ "aria-current": "page" }}
            >
              <Icon name={view.icon} /> {view.name}
              {view.to === "/health" && <Ailments />}
            </Link>
          ))}
        </nav>
        <footer>
          <Who />
          <Pulse />
          <div className="row">
            <ThemeSwitch />
            <button
              type="button"
              className="button bare icon push"
              aria-label="Keyboard"
              title="Keyboard (?)"
              onClick={keys.openHelp}
            >
              ?
            </button>
          </div>
        </footer>
      </aside>
      {open && (
        <button type="button" className="veil" aria-label="Close the menu" onClick={() => setOpen(false)} />
      )}
      <main id="main" tabIndex={-1}>
        <Outlet />
      </main>
      {keys.shown === "palette" && <Palette close={keys.close} />}
      {keys.shown === "help" && <Keys close={keys.close} />}
      <Toasts />
    </div>
  );
}

function Ailments() {
  const { data } = useQuery(health);
  const count = data?.wrong.length ?? 0;
  if (count === 0) return null;
  return (
    <span className="ail">
      {count}
      <span className="hidden-label"> things are wrong</span>
    </span>
  );
}

const PULSE: Record<Standing, { icon: IconName; words: string; title: string }> = {
  live: { icon: "live", words: "Live", title: "The server says when something changes" },
  asking: { icon: "live", words: "Every 3 s", title: "The server is asked every three seconds" },
  cut: {
    icon: "alert",
    words: "Out of reach",
    title: "The server cannot be reached; what is shown may be old",
  },
};

function Pulse() {
  const standing = useStanding();
  const { icon, words, title } = PULSE[standing];
  return (
    <div className="pulse" data-standing={standing} title={title} role="status">
      <Icon name={icon} size={14} /> {words}
    </div>
  );
}
