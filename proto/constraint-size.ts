// Size of the formats that a request holds its output to, with every reference and every counted repetition expanded. Engines
// build state machines of that size: a 4 KB schema can expand to 2^60 parts. Shared results are counted once and multiplied,
// so the work is proportional to the size of the request, never to the expanded size.

/** Maximum number of expanded parts of all schemas and patterns of one request. */
export const maxExpandedParts = 50_000;
/** Length of a string or list that is counted at most: engines keep longer ones as a counter. */
const maxCountedLength = 2000;
/** Maximum nesting of one schema, references included. Protects the recursive readers of every engine. */
export const maxSchemaDepth = 1000;

export interface ConstraintProblem {
  /** Field of the request that holds the format. */
  readonly param: string;
  readonly message: string;
}

type Json = Readonly<Record<string, unknown>>;

/** Checks `response_format` and `tools` of a chat request; undefined: within the limits. */
export function constraintProblem(body: Json): ConstraintProblem | undefined {
  const { response_format: format, tools } = body;
  if (isObject(format)) {
    const wrapped = format["json_schema"];
    const schema = isObject(wrapped) ? wrapped["schema"] : undefined;
    const problem = sizeProblem([schema], [format["regex"]]);
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

function sizeProblem(schemas: readonly unknown[], patterns: readonly unknown[]): string | undefined {
  let size = 0;
  for (const schema of schemas) {
    const reader = new SchemaSize(schema);
    size += reader.sizeOf(schema, 0);
    if (reader.isTooDeep)
      return `A schema may nest at most ${maxSchemaDepth} levels, references included. Flatten the schema.`;
  }
  for (const pattern of patterns) if (typeof pattern === "string") size += regexSize(pattern);
  if (size <= maxExpandedParts) return undefined;
  return `The format expands to more than ${maxExpandedParts} parts once its references and repetitions are written out. Simplify the schema or pattern.`;
}

/** Values, not schemas: a "$ref" inside them is a plain key. */
const valueKeys = new Set(["const", "enum", "default", "example", "examples"]);
/** Schemas that count only where they are referenced. */
const definitionKeys = new Set(["$defs", "definitions"]);
const countKeys = new Set(["minItems", "maxItems", "minLength", "maxLength"]);

class SchemaSize {
  readonly #root: unknown;
  /** Undefined while the target is being measured: a cycle counts as one part. */
  readonly #targets = new Map<string, number | undefined>();
  isTooDeep = false;

  constructor(root: unknown) {
    this.#root = root;
  }

  sizeOf(value: unknown, depth: number): number {
    if (typeof value !== "object" || value === null) return 1;
    if (depth > maxSchemaDepth) this.isTooDeep = true;
    if (this.isTooDeep) return 1;
    let size = 1;
    if (Array.isArray(value)) {
      for (const item of value) size += this.sizeOf(item, depth + 1);
      return capped(size);
    }
    for (const [key, part] of Object.entries(value)) {
      if (definitionKeys.has(key) && isObject(part) && !Array.isArray(part)) continue;
      if (key === "$ref" && typeof part === "string") size += this.#targetSize(part, depth);
      else if (valueKeys.has(key)) size += Array.isArray(part) ? part.length : 1;
      else if (key === "pattern" && typeof part === "string") size += regexSize(part);
      else if (countKeys.has(key)) size += typeof part === "number" && part > 0 ? Math.min(part, maxCountedLength) : 1;
      else if (key === "patternProperties" && isObject(part)) {
        for (const pattern of Object.keys(part)) size += regexSize(pattern);
        size += this.sizeOf(part, depth + 1);
      } else size += this.sizeOf(part, depth + 1);
    }
    return capped(size);
  }

  #targetSize(reference: string, depth: number): number {
    if (this.#targets.has(reference)) return this.#targets.get(reference) ?? 1;
    this.#targets.set(reference, undefined);
    const target = reference.startsWith("#") ? resolve(this.#root, reference) : undefined;
    const size = target === undefined ? 1 : this.sizeOf(target, depth + 1);
    this.#targets.set(reference, size);
    return size;
  }
}

/** Follows a JSON pointer in a fragment; undefined where it leads nowhere. */
function resolve(root: unknown, reference: string): unknown {
  let target = root;
  for (const step of reference.split("/").slice(1)) {
    let key = step;
    try {
      key = decodeURIComponent(step);
    } catch {
      // A "%" without its digits is an ordinary character.
    }
    key = key.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof target !== "object" || target === null || !Object.hasOwn(target, key)) return undefined;
    target = (target as Json)[key];
  }
  return target;
}

/** Returns the number of characters, classes and groups of `regex` once counted repetitions are written out. */
export function regexSize(regex: string): number {
  /** Sizes of the open groups; the last one is the group being read. */
  const groups = [0];
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
      const [text = "", low = "", high = ""] = /^\{(\d*)(?:,(\d*))?\}/.exec(regex.slice(at, at + 40)) ?? [];
      const times = Math.max(1, Number(low), Number(high));
      if (text === "") add(1);
      else {
        add(last * (times - 1));
        last *= times;
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
