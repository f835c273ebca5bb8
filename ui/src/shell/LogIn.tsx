/** The door, when the server wants a key. */
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { post, Trouble } from "../api/client.ts";
import { Field } from "../parts/Dialog.tsx";
import { Mark } from "../parts/Icon.tsx";
import { Wrong } from "../parts/Page.tsx";
import "./shell.css";

export function LogIn({ why }: { why: Trouble }) {
  const queries = useQueryClient();
  const [key, setKey] = useState("");
  const [refused, setRefused] = useState<Error>();
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Log in · Windlass";
  }, []);
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await post("session", { key: key.trim() });
      await queries.resetQueries();
    } catch (error) {
      const wrong = error instanceof Trouble && error.status === 401;
      setRefused(
        wrong ? new Error("This key is not known here. It may have been revoked.") : (error as Error),
      );
    } finally {
      setBusy(false);
    }
  };
  const first = why.code === "not_logged_in" || why.code === "unknown";
  return (
    <main className="door">
      <form className="card" onSubmit={enter}>
        <h1 className="brand">
          <Mark size={34} /> Windlass
        </h1>
        {!first && !refused && <Wrong why={why} />}
        <Field label="API key" hint="It was shown once, when it was made with windlass keys create.">
          <input
            className="input mono"
            type="password"
            autoComplete="current-password"
            value={key}
            onChange={(event) => setKey(event.target.value)}
            required
            // biome-ignore lint/a11y/noAutofocus: there is nothing else to do here
            autoFocus
          />
        </Field>
        {refused && <Wrong why={refused} />}
        <button type="submit" className="button primary" disabled={busy || key.trim() === ""}>
          Log in
        </button>
      </form>
    </main>
  );
}
