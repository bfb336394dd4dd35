// Size of the formats that a request holds its output to, with every reference and every counted repetition expanded. Engines
// build state machines of that size: a 4 KB schema can expand to 2^60 parts. Each object is measured once, however many references
// lead to it, and reading stops at the limit, so the work is bounded by the limit, not by the request or its expansion.
import { grammarSize } from "./grammar-size.ts";
import { capped, regexSize } from "./regex-size.ts";

/** Maximum number of expanded parts of all schemas and patterns of one request. */
export const maxExpandedParts = 50_000;
/** Length of a string or list that is counted at most: engines keep longer ones as a counter. */
const maxCountedLength = 2000;
/** Maximum nesting of one schema, references included. Protects the recursive readers of every engine. */
export const maxSchemaDepth = 1000;

export interface ConstraintProblem {
  readonly param: string;
  readonly message: string;
}

type Json = Readonly<Record<string, unknown>>;

/** Checks `response_format` and `tools` of a chat request; undefined: within the limits. */
export function constraintProblem(body: Json): ConstraintProblem | undefined {
  const { response_format: format, tools } = body;
  if (isObject(format)) {
    const wrapped = format["json_schema"];
    // Some engines read a schema beside the type `json_object`.
    const schemas = [isObject(wrapped) ? wrapped["schema"] : undefined, format["schema"]];
    const texts = Array.isArray(format["choice"]) ? format["choice"] : [];
    const problem = sizeProblem({ schemas, regex: format["regex"], grammar: format["grammar"], texts });
    if (problem) return { param: "response_format", message: problem };
  }
  if (Array.isArray(tools) && tools.length > 0) {
    const schemas = tools.map((tool) => (isObject(tool) && isObject(tool["function"]) ? tool["function"] : tool));
    const problem = sizeProblem({ schemas: schemas.map((tool) => (isObject(tool) ? tool["parameters"] : undefined)) });
    if (problem) return { param: "tools", message: problem };
  }
  return undefined;
}

const tooDeep = `A schema may nest at most ${maxSchemaDepth} levels, references included. Flatten the schema.`;
const tooLarge = `The format expands to more than ${maxExpandedParts} parts once its references and repetitions are written out. Simplify the schema or pattern.`;

class FormatTooLarge extends Error {}

interface Formats {
  readonly schemas: readonly unknown[];
  readonly regex?: unknown;
  readonly grammar?: unknown;
  /** The output is one of them. */
  readonly texts?: readonly unknown[];
}

function sizeProblem({ schemas, regex, grammar, texts = [] }: Formats): string | undefined {
  const reading = new Reading();
  let size = 0;
  try {
    for (const schema of schemas) size += new SchemaSize(schema, reading).sizeOf(schema);
    if (typeof regex === "string") size += reading.patternSize(regex);
    if (typeof grammar === "string") size += reading.grammarSize(grammar);
    for (const text of texts) if (typeof text === "string") reading.add(text.length + 1);
  } catch (error) {
    if (error instanceof FormatTooLarge) return error.message;
    throw error;
  }
  return size > maxExpandedParts ? tooLarge : undefined;
}

/** Counts the work of one request, in parts, characters of patterns and steps of references. Ends it at the limit. */
class Reading {
  #read = 0;

  add(parts: number): void {
    this.#read += parts;
    if (this.#read > maxExpandedParts) throw new FormatTooLarge(tooLarge);
  }

  patternSize(pattern: string): number {
    this.add(pattern.length);
    return regexSize(pattern);
  }

  grammarSize(grammar: string): number {
    this.add(grammar.length);
    return grammarSize(grammar, (schema) => new SchemaSize(schema, this).sizeOf(schema));
  }
}

/** Values, not schemas: a "$ref" inside them is a plain key. */
const valueKeys = new Set(["const", "enum", "default", "example", "examples"]);
/** Schemas that count only where they are referenced. */
const definitionKeys = new Set(["$defs", "definitions"]);
/** Schemas by names of the customer, which are no keywords. */
const namedKeys = new Set(["properties", "patternProperties", "dependentSchemas", "dependencies"]);
const countKeys = new Set(["minItems", "maxItems", "minLength", "maxLength"]);

interface Measure {
  readonly size: number;
  /** Levels below, references included. */
  readonly height: number;
}
const leaf: Measure = { size: 1, height: 0 };

class SchemaSize {
  readonly #root: unknown;
  readonly #reading: Reading;
  /**
   * By object, because many references can lead to one. A leaf while it is being measured: a cycle counts as one part. A map of
   * named schemas is measured at its schema only, so that a reference to it reads it as a schema.
   */
  readonly #measured = new Map<object, Measure>();

  constructor(root: unknown, reading: Reading) {
    this.#root = root;
    this.#reading = reading;
  }

  sizeOf(schema: unknown): number {
    return this.#measure(schema, 0).size;
  }

  #measure(value: unknown, depth: number): Measure {
    this.#reading.add(1);
    if (typeof value !== "object" || value === null) return leaf;
    const known = this.#measured.get(value);
    if (known) {
      if (depth + known.height > maxSchemaDepth) throw new FormatTooLarge(tooDeep);
      return known;
    }
    if (depth > maxSchemaDepth) throw new FormatTooLarge(tooDeep);
    this.#measured.set(value, leaf);
    const sum = new Sum();
    if (Array.isArray(value)) for (const item of value) sum.addBelow(this.#measure(item, depth + 1));
    else for (const key of Object.keys(value)) this.#addKeyword(sum, key, (value as Json)[key], depth);
    const measure = sum.measure();
    this.#measured.set(value, measure);
    return measure;
  }

  #addKeyword(sum: Sum, key: string, part: unknown, depth: number): void {
    if (definitionKeys.has(key) && isObject(part) && !Array.isArray(part)) return;
    if (key === "$ref" && typeof part === "string") sum.addBelow(this.#measureTarget(part, depth));
    else if (valueKeys.has(key)) sum.add(Array.isArray(part) ? part.length : 1);
    else if (key === "pattern" && typeof part === "string") sum.add(this.#reading.patternSize(part));
    else if (countKeys.has(key) && typeof part === "number") sum.add(Math.min(Math.max(part, 1), maxCountedLength));
    else if (namedKeys.has(key) && isObject(part) && !Array.isArray(part)) {
      sum.add(1);
      for (const name of Object.keys(part)) {
        if (key === "patternProperties") sum.add(this.#reading.patternSize(name));
        sum.addBelow(this.#measure(part[name], depth + 2), 2);
      }
    } else sum.addBelow(this.#measure(part, depth + 1));
  }

  #measureTarget(reference: string, depth: number): Measure {
    const target = reference.startsWith("#") ? this.#resolve(reference) : undefined;
    return this.#measure(target, depth + 1);
  }

  /** Follows a JSON pointer in a fragment; undefined where it leads nowhere. */
  #resolve(reference: string): unknown {
    let target = this.#root;
    // Step by step: a pointer that leads nowhere may have millions of steps.
    for (let slash = reference.indexOf("/"); slash >= 0; ) {
      this.#reading.add(1);
      const next = reference.indexOf("/", slash + 1);
      let key = reference.slice(slash + 1, next < 0 ? undefined : next);
      try {
        key = decodeURIComponent(key);
      } catch {
        // A "%" without its digits is an ordinary character.
      }
      key = key.replaceAll("~1", "/").replaceAll("~0", "~");
      if (typeof target !== "object" || target === null || !Object.hasOwn(target, key)) return undefined;
      target = (target as Json)[key];
      slash = next;
    }
    return target;
  }
}

class Sum {
  #size = 1;
  #height = 0;

  add(size: number): void {
    this.#size = capped(this.#size + size);
  }

  addBelow({ size, height }: Measure, levels = 1): void {
    this.add(size);
    this.#height = Math.max(this.#height, height + levels);
  }

  measure(): Measure {
    return { size: this.#size, height: this.#height };
  }
}

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;
