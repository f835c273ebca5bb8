/** A form for a schema: each value by what it is, and as JSON what a form cannot say. */
import { useState } from "react";
import { Icon } from "../parts/Icon.tsx";
import { blank, kindOf, resolved, type Schema } from "./schema.ts";

interface Asked {
  schema: Schema;
  root: Schema;
  label: string;
  value: unknown;
  change: (value: unknown) => void;
}

export function InputForm({
  schema,
  value,
  change,
}: {
  schema: Schema;
  value: unknown;
  change: (value: unknown) => void;
}) {
  return (
    <div className="input-form">
      <Value schema={schema} root={schema} label={schema.title ?? "Input"} value={value} change={change} />
    </div>
  );
}

function Value(asked: Asked) {
  const { schema, nullable } = resolved(asked.schema, asked.root);
  if (!nullable) return <Plain {...asked} schema={schema} />;
  const given = asked.value !== null && asked.value !== undefined;
  return (
    <div className="maybe">
      <label className="row">
        <input
          type="checkbox"
          checked={given}
          onChange={(event) => asked.change(event.target.checked ? blank(schema, asked.root) : null)}
        />
        {asked.label}
      </label>
      {given && <Plain {...asked} schema={schema} />}
    </div>
  );
}

function Plain({ schema, root, label, value, change }: Asked) {
  const kind = kindOf(schema);
  if (kind === "object") {
    const fields = (value ?? {}) as Record<string, unknown>;
    return (
      <fieldset>
        <legend>{label}</legend>
        {Object.entries(schema.properties ?? {}).map(([name, one]) => (
          <Value
            key={name}
            schema={one}
            root={root}
            label={name}
            value={fields[name]}
            change={(next) => change({ ...fields, [name]: next })}
          />
        ))}
      </fieldset>
    );
  }
  if (kind === "array" && schema.items) {
    const items = Array.isArray(value) ? value : [];
    return (
      <fieldset>
        <legend>{label}</legend>
        {items.map((item, index) => (
          <div key={index} className="row item">
            <Value
              schema={schema.items!}
              root={root}
              label={`${label} ${index + 1}`}
              value={item}
              change={(next) => change(items.with(index, next))}
            />
            <button
              type="button"
              className="button bare icon small"
              aria-label={`Remove ${label} ${index + 1}`}
              onClick={() => change(items.toSpliced(index, 1))}
            >
              <Icon name="close" size={13} />
            </button>
          </div>
        ))}
        <button
          type="button"
          className="button small"
          onClick={() => change([...items, blank(schema.items!, root)])}
        >
          Add one
        </button>
      </fieldset>
    );
  }
  if (kind === "boolean") {
    return (
      <label className="row">
        <input type="checkbox" checked={value === true} onChange={(event) => change(event.target.checked)} />
        {label} <Hint schema={schema} />
      </label>
    );
  }
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: one of the controls below
    <label className="field">
      <span>{label}</span>
      {kind === "choice" ? (
        <select
          className="input"
          value={JSON.stringify(value)}
          onChange={(event) => change(JSON.parse(event.target.value))}
        >
          {schema.enum?.map((one) => (
            <option key={JSON.stringify(one)} value={JSON.stringify(one)}>
              {String(one)}
            </option>
          ))}
        </select>
      ) : kind === "integer" || kind === "number" ? (
        <input
          className="input"
          type="number"
          required
          step={kind === "integer" ? 1 : "any"}
          min={schema.minimum}
          max={schema.maximum}
          value={String(value ?? "")}
          onChange={(event) => change(event.target.value === "" ? "" : Number(event.target.value))}
        />
      ) : kind === "string" ? (
        <input
          className="input"
          value={String(value ?? "")}
          onChange={(event) => change(event.target.value)}
        />
      ) : (
        <JsonField value={value} change={change} />
      )}
      <Hint schema={schema} />
    </label>
  );
}

function JsonField({ value, change }: { value: unknown; change: (value: unknown) => void }) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const write = (field: HTMLTextAreaElement) => {
    setText(field.value);
    try {
      change(JSON.parse(field.value));
      field.setCustomValidity("");
    } catch (why) {
      field.setCustomValidity(`This is not JSON: ${(why as Error).message}`);
    }
  };
  return (
    <textarea
      className="input"
      rows={3}
      spellCheck={false}
      value={text}
      onChange={(event) => write(event.currentTarget)}
    />
  );
}

function Hint({ schema }: { schema: Schema }) {
  return schema.description ? <span className="hint">{schema.description}</span> : null;
}
