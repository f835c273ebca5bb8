/** What an input looks like, as far as a form can ask for it. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  format?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  definitions?: Record<string, Schema>;
}

export type Kind = "object" | "array" | "string" | "integer" | "number" | "boolean" | "choice" | "json";

/** A schema without references and without "or nothing". */
export function resolved(schema: Schema, root: Schema): { schema: Schema; nullable: boolean } {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1) ?? "";
    const found = root.$defs?.[name] ?? root.definitions?.[name];
    return found ? resolved({ ...found, ...without(schema) }, root) : { schema: {}, nullable: false };
  }
  const ways = schema.anyOf ?? schema.oneOf;
  if (ways) {
    const real = ways.filter((way) => way.type !== "null");
    const first = real[0];
    if (real.length === 1 && first)
      return { ...resolved({ ...first, description: schema.description }, root), nullable: true };
    return { schema: {}, nullable: false };
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return {
      schema: { ...schema, type: types.length === 1 ? types[0] : undefined },
      nullable: types.length < schema.type.length,
    };
  }
  return { schema, nullable: false };
}

const without = ({ $ref: _, ...rest }: Schema): Schema => rest;

export function kindOf(schema: Schema): Kind {
  if (schema.enum) return "choice";
  switch (schema.type) {
    case "object":
      return schema.properties ? "object" : "json";
    case "array":
    case "string":
    case "integer":
    case "number":
    case "boolean":
      return schema.type;
    default:
      return "json";
  }
}

/** A value to begin with. */
export function blank(asked: Schema, root: Schema = asked): unknown {
  const { schema, nullable } = resolved(asked, root);
  if (schema.default !== undefined) return schema.default;
  if (nullable) return null;
  switch (kindOf(schema)) {
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, one]) => [name, blank(one, root)]),
      );
    case "array":
      return [];
    case "string":
      return "";
    case "integer":
    case "number":
      return schema.minimum ?? 0;
    case "boolean":
      return false;
    case "choice":
      return schema.enum?.[0];
    case "json":
      return null;
  }
}
