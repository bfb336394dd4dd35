// From a JSON schema: values that fit it, one for each way to stand on one of its bounds, and values that miss it by one bound
// alone, with where they do. Of the keywords that the schemas of requests are written in.
export interface Schema {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  /** With a `discriminator`: each is one kind of an object. */
  readonly oneOf?: readonly Schema[];
  readonly discriminator?: { readonly propertyName: string };
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

export interface Miss {
  readonly value: unknown;
  /** Path of what misses, from the value. */
  readonly at: readonly string[];
  readonly why: string;
}

const wrong = { none: "of these" };
const texts = ["text", "ab", "1:1", "64x64", "data:image/png;base64,AAAA", "08:00"];

const typesOf = ({ type, anyOf = [], oneOf = [] }: Schema): readonly string[] => [
  ...(type === undefined ? [] : [type].flat()),
  ...[...anyOf, ...oneOf].flatMap(typesOf),
];

/** Undefined: it says nothing of a type. */
function ofNoType(schema: Schema): Miss | undefined {
  const types = typesOf(schema);
  if (types.length === 0) return undefined;
  const value = types.includes("object") ? (types.includes("number") ? true : 7) : wrong;
  return { value, at: [], why: `is ${typeof value}` };
}

/** The usual one. */
export function fitting(schema: Schema): unknown {
  const { const: only, enum: allowed, anyOf, oneOf, properties = {}, required = [], items = {} } = schema;
  if (only !== undefined) return only;
  if (allowed) return allowed.find((one) => one !== null);
  const [first] = anyOf ?? oneOf ?? [];
  if (first) return fitting(first);
  switch (typesOf(schema).find((type) => type !== "null")) {
    case "object":
      return Object.fromEntries(required.map((key) => [key, fitting(properties[key] ?? {})]));
    case "array":
      return Array.from({ length: schema.minItems ?? 0 }, () => fitting(items));
    case "integer":
    case "number":
      return schema.minimum ?? (schema.exclusiveMinimum === undefined ? 1 : 1 + schema.exclusiveMinimum);
    case "boolean":
      return true;
    case undefined:
      return schema.type === "null" ? null : texts[0];
    default:
      return texts.find((text) => schema.pattern === undefined || new RegExp(schema.pattern, "u").test(text));
  }
}

/** Each stands on one bound, or is one of the alternatives. */
export function edges(schema: Schema): readonly unknown[] {
  const { const: only, enum: allowed, anyOf, oneOf, properties = {}, items, minimum, maximum } = schema;
  if (only !== undefined) return [only];
  if (allowed) return allowed;
  const alternatives = anyOf ?? oneOf;
  if (alternatives) return alternatives.flatMap(edges);
  const whole = fitting(schema);
  const found: unknown[] = [whole, minimum, maximum].filter((one) => one !== undefined);
  if (typesOf(schema).includes("null")) found.push(null);
  if (schema.maxLength !== undefined) found.push("x".repeat(schema.maxLength));
  if (schema.minLength !== undefined) found.push("x".repeat(schema.minLength));
  for (const [key, property] of Object.entries(properties))
    for (const value of edges(property)) found.push({ ...(whole as object), [key]: value });
  if (items) {
    for (const value of edges(items)) found.push(lengthened([value], schema.minItems ?? 0, items));
    if (schema.maxItems !== undefined) found.push(lengthened([], schema.maxItems, items));
  }
  return found.filter((one) => typeof one !== "number" || Number.isSafeInteger(one) || !Number.isInteger(one));
}

export function misses(schema: Schema): readonly Miss[] {
  const own = ofNoType(schema);
  return [...(own ? [own] : []), ...beside(schema)];
}

/** All but another type: what misses one alternative by its type may be another alternative. */
function beside(schema: Schema): readonly Miss[] {
  const { const: only, enum: allowed, anyOf, oneOf, discriminator } = schema;
  if (only !== undefined || allowed) return [{ value: "none of these", at: [], why: "is none of the values" }];
  if (oneOf && discriminator) return kinds(oneOf, discriminator.propertyName);
  if (anyOf) return anyOf.flatMap(beside);
  return [...bounds(schema), ...lengths(schema), ...members(schema), ...parts(schema)];
}

function kinds(oneOf: readonly Schema[], tag: string): readonly Miss[] {
  const { [tag]: _, ...untagged } = fitting(oneOf[0] as Schema) as Record<string, unknown>;
  return [
    { value: { ...untagged, [tag]: "none of these" }, at: [tag], why: `is of no known ${tag}` },
    { value: untagged, at: [tag], why: `has no ${tag}` },
    ...oneOf.flatMap((kind) =>
      members({ ...kind, required: kind.required?.filter((key) => key !== tag) ?? [] }, kind, tag),
    ),
  ];
}

function bounds({ type, minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Schema): readonly Miss[] {
  const isWhole = [type].flat().includes("integer");
  const step = isWhole ? 1 : 0.001;
  const beyond: readonly (readonly [number | undefined, number, string])[] = [
    [minimum, -step, "is below its minimum"],
    [maximum, step, "is above its maximum"],
    [exclusiveMinimum, 0, "is its lower bound"],
    [exclusiveMaximum, 0, "is its upper bound"],
  ];
  return [
    // Beyond 2^53 a step of one is none.
    ...beyond.flatMap(([bound, by, why]) =>
      bound === undefined || !Number.isSafeInteger(Math.trunc(bound)) ? [] : [{ value: bound + by, at: [], why }],
    ),
    ...(isWhole ? [{ value: 1.5, at: [], why: "is no whole number" }] : []),
  ];
}

function lengths(schema: Schema): readonly Miss[] {
  const { minLength = 0, maxLength, minItems = 0, maxItems, pattern, items = {} } = schema;
  const found: Miss[] = [];
  if (minLength > 0) found.push({ value: "x".repeat(minLength - 1), at: [], why: "is too short" });
  if (maxLength !== undefined) found.push({ value: "x".repeat(maxLength + 1), at: [], why: "is too long" });
  if (pattern !== undefined) found.push({ value: "?\u0000", at: [], why: "does not fit its pattern" });
  if (minItems > 0) found.push({ value: lengthened([], minItems - 1, items), at: [], why: "has too few items" });
  if (maxItems !== undefined)
    found.push({ value: lengthened([], maxItems + 1, items), at: [], why: "has too many items" });
  return found;
}

/** `whole`: what stands around a member, where that is more than `schema` asks for. */
function members(schema: Schema, whole: Schema = schema, leftOut?: string): readonly Miss[] {
  const { properties = {}, required = [] } = schema;
  const around = fitting({ ...whole, type: "object" }) as Record<string, unknown>;
  return [
    ...required.map((key) => {
      const { [key]: _, ...rest } = around;
      return { value: rest, at: [key], why: `has no ${key}` };
    }),
    ...Object.entries(properties)
      .filter(([key]) => key !== leftOut)
      .flatMap(([key, property]) =>
        misses(property).map(({ value, at, why }) => ({ value: { ...around, [key]: value }, at: [key, ...at], why })),
      ),
  ];
}

function parts({ items, minItems = 0 }: Schema): readonly Miss[] {
  if (!items) return [];
  return misses(items).map(({ value, at, why }) => ({
    value: lengthened([value], minItems, items),
    at: ["0", ...at],
    why,
  }));
}

const lengthened = (begun: readonly unknown[], length: number, items: Schema): readonly unknown[] => [
  ...begun,
  ...Array.from({ length: Math.max(0, length - begun.length) }, () => fitting(items)),
];
