import type { Readable } from "node:stream";
import { type BatchEndpoint, type BatchError, maxLines } from "./batch.ts";
import { isProblem, maxLineBytes, notUtf8, quoted, readInputLine } from "./input-line.ts";
import { readLines } from "./read-lines.ts";

/** Maximum reported errors. */
const maxErrors = 100;

export type Validation =
  | { readonly ok: true; readonly total: number; readonly model: string }
  | { readonly ok: false; readonly errors: readonly BatchError[] };

const emptyFile: BatchError = {
  code: "empty_file",
  line: null,
  message:
    "The input file has no requests. Write one JSON object per line, upload the file again and create a new batch.",
  param: "input_file_id",
};

/** Validates the whole file: every line is valid, ids are unique, and all name one model, which `hasModel` knows. */
export async function validate(
  body: Readable,
  endpoint: BatchEndpoint,
  hasModel: (name: string) => boolean,
): Promise<Validation> {
  const errors: BatchError[] = [];
  const seen = new Set<string>();
  let model: string | undefined;
  let total = 0;
  for await (const { line, text, isUtf8 } of readLines(body, maxLineBytes)) {
    total += 1;
    if (total > maxLines) {
      const message = `The file has more than ${maxLines} lines, the limit of a batch. Split it.`;
      errors.push({ code: "too_many_lines", line, message, param: null });
      break;
    }
    const read = isUtf8 ? readInputLine(text, endpoint) : notUtf8;
    if (isProblem(read)) errors.push({ ...read, line });
    else {
      if (seen.has(read.customId)) {
        const message = `\`custom_id\` ${quoted(read.customId, 100)} is used by an earlier line. Make them unique.`;
        errors.push({ code: "duplicate_custom_id", line, message, param: "custom_id" });
      }
      seen.add(read.customId);
      const name = read.model;
      model ??= name;
      if (name !== model) {
        const message = `All lines of a batch must name the same model: the first names ${quoted(model, 200)}, this one ${quoted(name, 200)}.`;
        errors.push({ code: "mismatched_model", line, message, param: "body.model" });
      }
    }
    if (errors.length >= maxErrors) break;
  }
  if (errors.length > 0) return { ok: false, errors };
  // Reported in the batch like every other error of the file, instead of refusing its creation.
  if (model === undefined) return { ok: false, errors: [emptyFile] };
  if (!hasModel(model)) {
    const message = `Model not found: ${quoted(model, 200)}. \`GET /v1/models\` lists the models you can use.`;
    return { ok: false, errors: [{ code: "model_not_found", line: 1, message, param: "body.model" }] };
  }
  return { ok: true, total, model };
}
