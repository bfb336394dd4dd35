// Size of the formats that a request holds its output to, with every reference and every counted repetition expanded. Engines
// build state machines of that size: a 4 KB schema can expand to 2^60 parts. Each object is measured once, however many references
// lead to it, and reading stops at the limit, so the work is bounded by the limit, not by the request or its expansion.

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
    const choices = Array.isArray(format["choice"]) ? format["choice"] : [];
    const problem = sizeProblem(schemas, [format["regex"], format["grammar"], ...choices]);
    if (problem) return { param: "response_format", message: problem };
  }
  if (Array.isArray(tools) && tools.length > 0) {
    const schemas = tools.map((tool) => (isObject(tool) && isObject(tool["function"]) ? tool["function"] : tool));
    const problem = sizeProblem(
      schemas.map((tool) => (isObject(tool) ? tool["parameters"] : undefined)),
      [],
    );
    if (problem) return { param: "tools", message: problem };
  }
  return undefined;
}

const tooDeep = `A schema may nest at most ${maxSchemaDepth} levels, references included. Flatten the schema.`;
const tooLarge = `The format expands to more than ${maxExpandedParts} parts once its references and repetitions are written out. Simplify the schema or pattern.`;

class FormatTooLarge extends Error {}

function sizeProblem(schemas: readonly unknown[], patterns: readonly unknown[]): string | undefined {
  const reading = new Reading();
  let size = 0;
  try {
    for (const schema of schemas) size += new SchemaSize(schema, reading).sizeOf(schema);
    for (const pattern of patterns) if (typeof pattern === "string") size += reading.patternSize(pattern);
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

/** Returns the number of characters, classes and groups of `regex` once counted repetitions are written out. */
export function regexSize(regex: string): number {
  /** Sizes of the open groups; the last one is the group being read. */
  const groups = [0];
  const counted = /\{(\d*)(?:,(\d*))?\}/y;
  let last = 0;
  const add = (size: number) => {
    last = size;
    groups.push(capped((groups.pop() as number) + size));
  };
  for (let at = 0; at < regex.length; at++) {
    const char = regex[at];
    if (char === "\\") {
      at++;
      add(1);
    } else if (char === "[") {
      at = endOfClass(regex, at);
      add(1);
    } else if (char === "(") groups.push(1);
    else if (char === ")" && groups.length > 1) add(groups.pop() as number);
    else if (char === "{") {
      counted.lastIndex = at;
      const [text = "", low = "", high = ""] = counted.exec(regex) ?? [];
      const times = Math.max(1, Number(low), Number(high));
      if (text === "") add(1);
      else {
        const repeated = capped(last * times);
        add(repeated - last);
        last = repeated;
        at += text.length - 1;
      }
    } else add(1);
  }
  return capped(groups.reduce((sum, size) => sum + size, 0));
}

/** Index of the bracket that closes the class which opens at `start`. */
function endOfClass(regex: string, start: number): number {
  let at = start + (regex[start + 1] === "^" ? 2 : 1);
  if (regex[at] === "]") at++;
  while (at < regex.length && regex[at] !== "]") at += regex[at] === "\\" ? 2 : 1;
  return at;
}

/** Keeps sums finite: everything above the limit is equal. */
const capped = (size: number) => Math.min(size, Number.MAX_SAFE_INTEGER / 4096);

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;
