/** A question in front of the page. Escape closes it, and focus goes back to where it was. */
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Wrong } from "./Page.tsx";

export function Dialog({
  title,
  close,
  children,
  broad = false,
}: {
  title: string;
  close: () => void;
  children: ReactNode;
  broad?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close} className={broad ? "broad" : undefined}>
      <div className="inside">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** A question that is answered by doing something, which may fail and then says why. */
export function Ask({
  title,
  act,
  verb,
  close,
  children,
  danger = false,
  disabled = false,
  broad = false,
}: {
  title: string;
  act: () => Promise<unknown>;
  verb: string;
  close: () => void;
  children?: ReactNode;
  danger?: boolean;
  disabled?: boolean;
  broad?: boolean;
}) {
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState<Error>();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setWhy(undefined);
    try {
      await act();
      close();
    } catch (error) {
      setWhy(error as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} close={close} broad={broad}>
      <form className="plain" onSubmit={submit}>
        {children}
        {why && <Wrong why={why} />}
        <div className="ends">
          <button type="button" className="button" onClick={close}>
            Close
          </button>
          <button
            type="submit"
            className={`button primary ${danger ? "danger" : ""}`}
            disabled={busy || disabled}
          >
            {busy ? "…" : verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: ReactNode; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child
    <label className="field">
      <span>{label}</span>
      {children}
      {hint && <span className="hint">{hint}</span>}
    </label>
  );
}
