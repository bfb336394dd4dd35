// The fields of a request as a list, made from the schema that validates it, so that both have the same bounds.
import type { TSchema } from "typebox";
import type { FieldInfo } from "./model-record-schemas.ts";

interface Schema {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly description?: string;
  readonly contentMediaType?: string;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

type Examples = Readonly<Record<string, unknown>>;

/** A field of a field names it as its parent; those of lists' items, the list. */
export function fieldsIn(schema: TSchema, example: Examples = {}): readonly FieldInfo[] {
  return listed(schema as Schema, "", example);
}

function listed(schema: Schema, parent: string, example: Examples): readonly FieldInfo[] {
  return [...propertiesOf(schema)].flatMap(([name, forms]) => [
    infoOf(name, forms, parent, example[name]),
    ...forms.flatMap((form) => listed(form, name, {})).filter(isFirstOfName),
  ]);
}

const isFirstOfName = (field: FieldInfo, index: number, all: readonly FieldInfo[]): boolean =>
  all.findIndex((one) => one.name === field.name && one.parent === field.parent) === index;

/** Fields of an object, of each of its alternatives and of a list's items: a name may have several forms. */
function propertiesOf(schema: Schema): ReadonlyMap<string, readonly Schema[]> {
  const found = new Map<string, readonly Schema[]>(
    Object.entries(schema.properties ?? {}).map(([name, form]) => [name, [form]]),
  );
  const inner = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.items ? [schema.items] : [])];
  for (const one of inner)
    for (const [name, forms] of propertiesOf(one)) found.set(name, [...(found.get(name) ?? []), ...forms]);
  return found;
}

function infoOf(name: string, forms: readonly Schema[], parent: string, example: unknown): FieldInfo {
  const first = <Key extends keyof Schema>(key: Key): Schema[Key] | undefined =>
    forms.find((form) => key in form)?.[key];
  const allowed = forms.flatMap(valuesOf);
  return {
    name,
    ftype: [...new Set(forms.flatMap(typesOf))].join("|") || "any",
    parent,
    description: first("description") ?? "",
    ...(allowed.length > 0 && { allowed: [...new Set(allowed)] }),
    default: first("default") ?? null,
    examples: example === undefined ? [] : [example],
    ...boundsOf(forms),
  };
}

const bounds = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"] as const;

/** Returns the numeric bounds that the schema sets; the first form of a field that sets one wins. */
function boundsOf(forms: readonly Schema[]): Pick<FieldInfo, (typeof bounds)[number]> {
  const found: { [Bound in (typeof bounds)[number]]?: number } = {};
  for (const bound of bounds) {
    const value = forms.find((form) => form[bound] !== undefined)?.[bound];
    if (value !== undefined) found[bound] = value;
  }
  return found;
}

const valuesOf = (form: Schema): readonly unknown[] =>
  form.const === undefined ? (form.enum ?? []).filter((value) => value !== null) : [form.const];

function typesOf(form: Schema): readonly string[] {
  if (form.contentMediaType !== undefined) return ["file"];
  if (form.const !== undefined) return [typeof form.const];
  const types = typeof form.type === "string" ? [form.type] : (form.type ?? []);
  const alternatives = [...(form.anyOf ?? []), ...(form.oneOf ?? [])].flatMap(typesOf);
  return [...types, ...alternatives].filter((type) => type !== "null");
}
