/** Starts a run: its input as a form where the workflow says what it wants, and as JSON where it does not. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { post } from "../api/client.ts";
import { useRefresh, workflow, workflows } from "../api/queries.ts";
import type { StartedRun, Workflow } from "../api/types.ts";
import { Ask, Field } from "../parts/Dialog.tsx";
import { say } from "../parts/toast.tsx";
import { InputForm } from "./InputForm.tsx";
import { blank, type Schema } from "./schema.ts";

/** The schema of the input, from servers that know it. */
const schemaOf = (shown: Workflow | undefined): Schema | undefined =>
  (shown as { input_schema?: Schema } | undefined)?.input_schema ?? undefined;

export function StartRun({ close, of }: { close: () => void; of?: string }) {
  const known = useQuery(workflows).data;
  const [name, setName] = useState(of ?? "");
  const chosen = name || known?.[0]?.name || "";
  const shown = useQuery({ ...workflow(chosen), enabled: chosen !== "" }).data;
  const schema = schemaOf(shown);
  const [inputs, setInputs] = useState<Record<string, unknown>>({});
  const [text, setText] = useState("null");
  const [more, setMore] = useState({ key: "", queue: "", tags: "", delay: "" });
  const navigate = useNavigate();
  const refresh = useRefresh();
  const input = inputs[chosen] ?? (schema ? blank(schema) : undefined);
  const problem = schema ? undefined : problemOf(text);

  const act = async () => {
    const started = await post<StartedRun>("runs", {
      workflow: chosen,
      input: schema ? input : JSON.parse(text),
      ...(more.key && { key: more.key }),
      ...(more.queue && { queue: more.queue }),
      ...(more.delay && { delay: Number(more.delay) }),
      tags: more.tags.split(/[\s,]+/).filter(Boolean),
    });
    say(
      <>
        {started.workflow} was started.{" "}
        <Link to="/runs/$id" params={{ id: started.id }}>
          Look at it
        </Link>
      </>,
    );
    refresh();
    void navigate({ to: "/runs/$id", params: { id: started.id } });
  };
  const field = (name: keyof typeof more, label: string, hint: string) => (
    <Field label={label} hint={hint}>
      <input
        className="input"
        value={more[name]}
        onChange={(event) => setMore({ ...more, [name]: event.target.value })}
      />
    </Field>
  );
  return (
    <Ask
      title="Start a run"
      verb="Start"
      act={act}
      close={close}
      disabled={chosen === "" || problem !== undefined}
      broad
    >
      {of === undefined && (
        <Field
          label="Workflow"
          hint={known?.length === 0 ? "No engine has brought a workflow yet: start one." : undefined}
        >
          <select className="input" value={chosen} onChange={(event) => setName(event.target.value)}>
            {known?.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
          </select>
        </Field>
      )}
      {schema ? (
        <InputForm
          schema={schema}
          value={input}
          change={(value) => setInputs({ ...inputs, [chosen]: value })}
        />
      ) : (
        <Field
          label="Input"
          hint={problem ?? "As JSON. What does not fit fails the first task that reads it."}
        >
          <textarea
            className="input"
            rows={7}
            spellCheck={false}
            value={text}
            aria-invalid={problem !== undefined}
            onChange={(event) => setText(event.target.value)}
          />
        </Field>
      )}
      <details>
        <summary>Key, queue, tags and delay</summary>
        <div className="pair">
          {field("key", "Key", "The same key gives the same run.")}
          {field("queue", "Queue", "default, if nothing is said.")}
          {field("tags", "Tags", "Words to find it by.")}
          {field("delay", "Delay", "Seconds before it may begin.")}
        </div>
      </details>
    </Ask>
  );
}

function problemOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (why) {
    return `This is not JSON: ${(why as Error).message}`;
  }
}
