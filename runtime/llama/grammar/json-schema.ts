// JSON Schema -> GBNF. Properties come in the order of the schema, optional ones may be left out; keys that are not
// listed appear only where the schema names a rule for them. What a grammar cannot hold is refused, never ignored.
import { choiceOf } from "./choice-tree.ts";
import { GrammarRules, literal, UnsupportedConstraint } from "./grammar-rules.ts";
import { integerRange } from "./integer-range.ts";
import * as json from "./json-primitives.ts";
import { insideJson, regexToGbnf } from "./regex.ts";

type Schema = Readonly<Record<string, unknown>>;

const annotations = new Set(
  "title description default example examples $schema $id $comment $defs definitions deprecated readOnly writeOnly strict format".split(
    " ",
  ),
);
const byKind: Readonly<Record<string, readonly string[]>> = {
  object: ["type", "properties", "required", "additionalProperties"],
  array: ["type", "items", "prefixItems", "minItems", "maxItems"],
  string: ["type", "minLength", "maxLength", "pattern"],
  integer: ["type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
  number: ["type"],
  boolean: ["type"],
  null: ["type"],
  enum: ["type", "enum"],
  const: ["type", "const"],
  anyOf: ["anyOf", "oneOf", "allOf"],
  $ref: ["$ref"],
  any: [],
};
const formats: Readonly<Record<string, string>> = {
  date: "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$",
  time: "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](Z|[+-][01][0-9]:[0-5][0-9])$",
  "date-time":
    "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](Z|[+-][01][0-9]:[0-5][0-9])$",
  uuid: "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
};
const keysOf = (kind: string) => (Object.hasOwn(byKind, kind) ? byKind[kind] : undefined) ?? [];
const jsonTypes = new Set(["object", "array", "string", "integer", "number", "boolean", "null"]);
/** llama.cpp expands a repetition into as many rules: of one, and of a whole schema. */
const maxRepetition = 2000;
const maxRepetitions = 50_000;
/** Maximum values of all enumerations together: each token is compared with all open ones. */
const maxValues = 1000;
/** Reading more of them would block all other requests. */
const maxParts = 5000;

/** A whole grammar. Throws UnsupportedConstraint with the path of the part at fault. */
export function jsonSchemaGrammar(schema: unknown): string {
  const rules = new GrammarRules();
  return rules.grammar(schemaExpression(rules, schema));
}

/** Adds the rules of `schema` and returns the name of the one that matches it. */
export function schemaExpression(rules: GrammarRules, schema: unknown): string {
  return new SchemaWriter(rules, schema).visit(schema, "$");
}

class SchemaWriter {
  readonly #rules: GrammarRules;
  readonly #root: unknown;
  readonly #references = new Map<string, string>();
  #parts = 0;
  #values = 0;
  #repetitions = 0;

  constructor(rules: GrammarRules, root: unknown) {
    this.#rules = rules;
    this.#root = root;
  }

  visit(schema: unknown, path: string): string {
    const rules = this.#rules;
    this.#parts += 1;
    if (this.#parts > maxParts) throw new UnsupportedConstraint(`the schema has more than ${maxParts} parts`);
    if (schema === true) return json.value(rules);
    if (typeof schema !== "object" || schema === null || Array.isArray(schema))
      throw new UnsupportedConstraint(`the schema at ${path} must be an object`);
    const s = schema as Schema;
    const types = s["type"];
    if (Array.isArray(types) && !("enum" in s) && !("const" in s)) return this.#union(s, types.map(String), path);
    const kind = kindOf(s, path);
    for (const key of Object.keys(s))
      if (!annotations.has(key) && !keysOf(kind).includes(key))
        throw new UnsupportedConstraint(`the schema at ${path} uses "${key}", which cannot be enforced there`);
    const add = (body: string) => rules.add(path === "$" ? kind : path.slice(2), body);
    switch (kind) {
      case "$ref":
        return this.#reference(String(s["$ref"]), path);
      case "const":
        return add(literal(jsonOf(s["const"])));
      case "enum": {
        const values = this.#choices(s["enum"], `${path}.enum`);
        return add(oneOfTexts(values.map(jsonOf)));
      }
      case "anyOf": {
        const key = ["anyOf", "oneOf", "allOf"].find((k) => k in s) as string;
        const branches = this.#choices(s[key], `${path}.${key}`);
        if (key === "allOf" && branches.length > 1)
          throw new UnsupportedConstraint(
            `the schema at ${path} uses "allOf" of several schemas, which cannot be enforced`,
          );
        if (branches.every(isConstant)) return add(oneOfTexts(branches.map((branch) => jsonOf(branch["const"]))));
        return add(branches.map((branch, i) => this.visit(branch, `${path}.${key}.${i}`)).join(" | "));
      }
      case "any":
        return json.value(rules);
      case "object":
        return this.#object(s, path);
      case "array":
        return this.#array(s, path);
      case "string":
        return this.#string(s, path);
      case "integer":
        return this.#integer(s, path);
      case "number":
        return json.number(rules);
      case "boolean":
        return json.boolean(rules);
      case "null":
        return add('"null"');
      default:
        throw new UnsupportedConstraint(`the schema at ${path} has the unknown type "${kind}"`);
    }
  }

  #choices(value: unknown, path: string): readonly unknown[] {
    const choices = list(value, path);
    this.#values += choices.length;
    if (this.#values > maxValues)
      throw new UnsupportedConstraint(`the schema has more than ${maxValues} values to choose from`);
    return choices;
  }

  #count(value: unknown, path: string): number | undefined {
    const found = count(value, path);
    this.#repetitions += found ?? 0;
    if (this.#repetitions > maxRepetitions)
      throw new UnsupportedConstraint(`the schema's lengths come to more than ${maxRepetitions}`);
    return found;
  }

  /** `"type": [..]`: each type with the keys that speak about it. */
  #union(s: Schema, types: readonly string[], path: string): string {
    const isFor = (key: string, type: string) => annotations.has(key) || keysOf(type).includes(key);
    const stray = Object.keys(s).find((key) => !types.some((type) => isFor(key, type)));
    if (stray !== undefined)
      throw new UnsupportedConstraint(`the schema at ${path} uses "${stray}", which cannot be enforced there`);
    const branches = types.map((type) => {
      const own = Object.entries(s).filter(([key]) => isFor(key, type));
      return this.visit({ ...Object.fromEntries(own), type }, `${path}.${type}`);
    });
    return this.#rules.add(path, branches.join(" | "));
  }

  #reference(reference: string, path: string): string {
    const known = this.#references.get(reference);
    if (known !== undefined) return known;
    let target: unknown = reference.startsWith("#") ? this.#root : undefined;
    for (const step of reference.slice(1).split("/").slice(1)) target = ownValue(target, step);
    if (target === undefined)
      throw new UnsupportedConstraint(`the schema at ${path} refers to "${reference}", which is not in it`);
    const name = this.#rules.reserve(`ref-${reference.split("/").at(-1) ?? "root"}`);
    this.#references.set(reference, name);
    this.#rules.define(name, this.visit(target, `$.${name}`));
    return name;
  }

  #object(s: Schema, path: string): string {
    const rules = this.#rules;
    const listed = s["properties"] ?? {};
    if (typeof listed !== "object" || Array.isArray(listed))
      throw new UnsupportedConstraint(`${path}.properties in the schema must be an object`);
    const properties = Object.entries(listed);
    const required = new Set(list(s["required"] ?? [], `${path}.required`, 0).map(String));
    const extra = s["additionalProperties"];
    if (properties.length === 0 && required.size === 0 && (extra === undefined || extra === true))
      return json.object(rules);
    for (const name of required)
      if (!properties.some(([key]) => key === name))
        throw new UnsupportedConstraint(`the schema at ${path} requires "${name}", which has no schema in properties`);
    const ws = json.space(rules);
    const colon = `":" ${ws}`;
    const comma = `"," ${ws}`;
    // `next` follows a property, `first` is used before any property; built from the last property backwards.
    let next = "";
    let first = "";
    if (extra === true || (typeof extra === "object" && extra !== null)) {
      const pair = rules.add(
        `${path}.pair`,
        `${json.string(rules)} ${colon} ${this.visit(extra, `${path}.additionalProperties`)}`,
      );
      next = rules.add(`${path}.more`, `(${comma} ${pair})*`);
      first = rules.add(`${path}.extra`, `(${pair} ${next})?`);
    }
    for (const [key, schema] of properties.reverse()) {
      const pair = rules.add(
        `${path}.${key}.pair`,
        `${literal(JSON.stringify(key))} ${colon} ${this.visit(schema, `${path}.${key}`)}`,
      );
      const alone = `${pair} ${next}`.trim();
      const after = `${comma} ${pair}`;
      const isRequired = required.has(key);
      first = rules.add(
        `${path}.${key}.first`,
        isRequired ? alone : first === "" ? `(${alone})?` : `${alone} | ${first}`,
      );
      next = rules.add(`${path}.${key}.next`, `${isRequired ? after : `(${after})?`} ${next}`.trim());
    }
    return rules.add(path === "$" ? "object-root" : path.slice(2), `"{" ${ws} ${first} ${ws} "}"`.replace("  ", " "));
  }

  #array(s: Schema, path: string): string {
    const rules = this.#rules;
    const prefix = list(s["prefixItems"] ?? [], `${path}.prefixItems`, 0).map((item, i) =>
      this.visit(item, `${path}.${i}`),
    );
    const min = this.#count(s["minItems"], `${path}.minItems`) ?? 0;
    const max = this.#count(s["maxItems"], `${path}.maxItems`);
    if (max !== undefined && max < min) throw nothingBetween(path, "minItems", "maxItems");
    const ws = json.space(rules);
    const comma = `"," ${ws}`;
    if (prefix.length > 0) {
      if (min > prefix.length || (max !== undefined && max < prefix.length))
        throw new UnsupportedConstraint(
          `the schema at ${path} mixes prefixItems with other lengths, which cannot be enforced`,
        );
      return rules.add(path, `"[" ${ws} ${prefix.join(` ${comma} `)} ${ws} "]"`);
    }
    const item = s["items"] === undefined ? json.value(rules) : this.visit(s["items"], `${path}.items`);
    if (max === 0) return rules.add(path, `"[" ${ws} "]"`);
    const more = `(${comma} ${item}){${Math.max(0, min - 1)},${max === undefined ? "" : max - 1}}`;
    return rules.add(path, `"[" ${ws} ${min > 0 ? `${item} ${more}` : `(${item} ${more})?`} ${ws} "]"`);
  }

  #string(s: Schema, path: string): string {
    const rules = this.#rules;
    const min = this.#count(s["minLength"], `${path}.minLength`);
    const max = this.#count(s["maxLength"], `${path}.maxLength`);
    if (min !== undefined && max !== undefined && max < min) throw nothingBetween(path, "minLength", "maxLength");
    if (s["pattern"] !== undefined && typeof s["pattern"] !== "string")
      throw new UnsupportedConstraint(`the schema at ${path} has a pattern that is no text`);
    const format = String(s["format"]);
    const pattern = s["pattern"] ?? (Object.hasOwn(formats, format) ? formats[format] : undefined);
    if (pattern === undefined) {
      if (min === undefined && max === undefined) return json.string(rules);
      return rules.add(path, `"\\"" ${json.char(rules)}{${min ?? 0},${max ?? ""}} "\\""`);
    }
    if (min !== undefined || max !== undefined)
      throw new UnsupportedConstraint(
        `the schema at ${path} has a pattern and a length, of which only one can be enforced`,
      );
    const { expression, startsAnchored, endsAnchored } = regexToGbnf(pattern, insideJson);
    const any = `${json.char(rules)}*`;
    return rules.add(path, `"\\"" ${startsAnchored ? "" : any} ${expression} ${endsAnchored ? "" : any} "\\""`);
  }

  #integer(s: Schema, path: string): string {
    const whole = (key: string, round: (n: number) => number) => {
      const value = s[key];
      if (value === undefined || typeof value === "bigint") return value;
      if (typeof value === "number" && Number.isFinite(value)) return BigInt(round(value));
      throw new UnsupportedConstraint(`the schema at ${path} has a "${key}" that is no number`);
    };
    const bound = (key: string, round: (n: number) => number, step: bigint, exclusive: string) => {
      const [value, open] = [whole(key, round), whole(exclusive, round)];
      if (open === undefined) return value;
      const given = s[exclusive];
      return open + (typeof given === "bigint" || Number.isInteger(given) ? step : 0n);
    };
    const min = bound("minimum", Math.ceil, 1n, "exclusiveMinimum");
    const max = bound("maximum", Math.floor, -1n, "exclusiveMaximum");
    if (min === undefined && max === undefined) return json.integer(this.#rules);
    try {
      return this.#rules.add(path, integerRange(min, max));
    } catch (error) {
      throw new UnsupportedConstraint(`the schema at ${path}: ${(error as Error).message}`);
    }
  }
}

function nothingBetween(path: string, low: string, high: string): UnsupportedConstraint {
  return new UnsupportedConstraint(`the schema at ${path} has a ${high} below its ${low}, which nothing can meet`);
}

function oneOfTexts(texts: readonly string[]): string {
  return choiceOf(
    texts.map((text) => [...text]),
    (characters) => literal(characters.join("")),
  );
}

/** A value that a schema generator gives a title or a description, and nothing that is enforced. */
function isConstant(schema: unknown): schema is Schema {
  if (typeof schema !== "object" || schema === null || !("const" in schema)) return false;
  return Object.keys(schema).every((key) => annotations.has(key) || keysOf("const").includes(key));
}

function kindOf(s: Schema, path: string): string {
  for (const key of ["$ref", "const", "enum"]) if (key in s) return key;
  if ("anyOf" in s || "oneOf" in s || "allOf" in s) return "anyOf";
  const type = s["type"];
  if (typeof type === "string" && jsonTypes.has(type)) return type;
  if (type !== undefined)
    throw new UnsupportedConstraint(`the schema at ${path} has the unknown type ${JSON.stringify(type)}`);
  if ("properties" in s || "additionalProperties" in s) return "object";
  if ("items" in s || "prefixItems" in s) return "array";
  return "any";
}

/** By one step of a JSON pointer in an address. */
function ownValue(target: unknown, step: string): unknown {
  try {
    const key = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    return typeof target === "object" && target !== null && Object.hasOwn(target, key)
      ? (target as Schema)[key]
      : undefined;
  } catch {
    // "%" without its digits.
    return undefined;
  }
}

function list(value: unknown, path: string, min = 1): readonly unknown[] {
  if (!Array.isArray(value) || value.length < min)
    throw new UnsupportedConstraint(`${path} in the schema must be a list${min > 0 ? " that is not empty" : ""}`);
  return value;
}

/** Digit by digit: an integer that no double holds is read as a bigint (server/read-body.ts). */
function jsonOf(value: unknown): string {
  const { rawJSON } = JSON as JSON & { rawJSON(text: string): object };
  return JSON.stringify(value, (_key, one: unknown) => (typeof one === "bigint" ? rawJSON(String(one)) : one));
}

function count(value: unknown, path: string): number | undefined {
  if (value === undefined) return undefined;
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > maxRepetition)
    throw new UnsupportedConstraint(`${path} in the schema must be a whole number up to ${maxRepetition}`);
  return value as number;
}
