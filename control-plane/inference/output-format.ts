// Translates `response_format` to the fields of one engine. Pure. A format is never dropped: without an equivalent in the engine it is
// refused, and the error names its field.
import type { FormatSkill } from "../../proto/api-formats.ts";
import { isJsonObject, type JsonObject } from "../../proto/json-object.ts";
import type { ServedModel } from "../catalog/served-model.ts";
import type { Completion } from "./completion.ts";
import { FieldUnsupported } from "./errors.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Types that every engine of chats reads as they are. */
const common: ReadonlySet<string> = new Set(["text", "json_object", "json_schema"]);

/**
 * Returns the members of a body that hold its output to `format`. `skills`: what all ready instances can; undefined: no instance is
 * ready, and nothing is sent. Throws FieldUnsupported.
 */
export function formatFields(
  format: JsonObject,
  engine: ServedModel["engine"],
  { kind, formatParam }: Pick<Completion, "kind" | "formatParam">,
  skills: ReadonlySet<FormatSkill> | undefined,
): Fields {
  const type = String(format["type"]);
  const refuse = (): never => {
    throw new FieldUnsupported(
      formatParam ?? "response_format",
      "Use response_format with json_schema, or another model.",
    );
  };
  if (type === "text") return { response_format: format };
  if (needsStructured(format, engine, kind) && skills?.has("structured_outputs") === false) return refuse();
  if (common.has(type)) return { response_format: format };
  if (engine === "stoker") return type === "grammar" ? refuse() : { response_format: regexOf(format) };
  return { structured_outputs: { [type]: format[type] } };
}

/**
 * Returns true if only an engine with the skill `structured_outputs` holds the output to that form. Others do not know the type, or
 * ignore forms of plain completions.
 */
export function needsStructured(format: unknown, engine: ServedModel["engine"], kind: Completion["kind"]): boolean {
  if (!isJsonObject(format) || format["type"] === "text" || engine === "stoker") return false;
  return kind === "text_completion" || !common.has(String(format["type"]));
}

/** A choice between texts is a pattern, too. */
function regexOf(format: JsonObject): JsonObject {
  if (format["type"] === "regex") return format;
  const texts = format["choice"] as readonly string[];
  return { type: "regex", regex: texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|") };
}
