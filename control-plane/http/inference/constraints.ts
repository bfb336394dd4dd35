// Reads every field that constrains the output, such as vLLM's `structured_outputs` and `guided_*`, as one `response_format`.
// inference/output-format.ts decides which types the engine supports.
import { isJsonObject, type JsonObject } from "../../../proto/json-object.ts";
import { badRequest, invalid } from "../../service-error.ts";

type Read = (value: unknown, param: string) => JsonObject | undefined;

const malformed = (param: string, what: string) => invalid("validation_error", `${param} must be ${what}.`, { param });

const schema: Read = (value, param) => {
  const read = typeof value === "string" ? parsed(value) : value;
  if (!isJsonObject(read)) throw malformed(param, "a JSON Schema object");
  return { type: "json_schema", json_schema: { name: "response", schema: read } };
};
const text =
  (type: "regex" | "grammar"): Read =>
  (value, param) => {
    if (typeof value !== "string" || value === "") throw malformed(param, "a non-empty string");
    return { type, [type]: value };
  };
const choice: Read = (value, param) => {
  const isList =
    Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string" && one !== "");
  if (!isList) throw malformed(param, "a list of non-empty strings");
  return { type: "choice", choice: value };
};
const jsonObject: Read = (value, param) => {
  if (typeof value !== "boolean") throw malformed(param, "a boolean");
  return value ? { type: "json_object" } : undefined;
};

// Maps: a client names the keys, and an object would have `constructor` as well.
const kinds: ReadonlyMap<string, Read> = new Map([
  ["json", schema],
  ["regex", text("regex")],
  ["choice", choice],
  ["grammar", text("grammar")],
]);
const structured: ReadonlyMap<string, Read> = new Map([...kinds, ["json_object", jsonObject]]);

export interface OutputConstraint {
  readonly format: JsonObject;
  /** Field of the request that holds it. */
  readonly param: string;
}

/** Returns the constraint of those fields; undefined: the request has none in them. Throws a refusal that names the field. */
export function constraintOf(body: JsonObject): OutputConstraint | undefined {
  const found: OutputConstraint[] = [];
  const add = (read: Read | undefined, value: unknown, param: string): void => {
    if (value === null || value === undefined) return;
    if (!read) throw badRequest("unsupported_value", `${param} is not supported. Remove it.`, { param });
    const format = read(value, param);
    if (format) found.push({ format, param });
  };
  for (const name of Object.keys(body)) {
    if (name.startsWith("guided_")) add(kinds.get(name.slice("guided_".length)), body[name], name);
    if (name !== "structured_outputs" || body[name] === null) continue;
    const fields = body[name];
    if (!isJsonObject(fields)) throw malformed(name, "an object");
    for (const key of Object.keys(fields)) add(structured.get(key), fields[key], `${name}.${key}`);
  }
  const [first, second] = found;
  if (!first) return undefined;
  const given = body["response_format"];
  const isHeld = isJsonObject(given) && given["type"] !== "text";
  if (second || isHeld) {
    const other = second?.param ?? "response_format";
    const message = `${first.param} and ${other} cannot be combined. Send one of them.`;
    throw badRequest("unsupported_value", message, { param: other });
  }
  return first;
}

function parsed(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}
