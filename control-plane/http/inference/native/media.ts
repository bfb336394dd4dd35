import { FormFile } from "../../body/form-body.ts";
import { badDataUri, fieldMissing } from "../../errors/errors.ts";

/** A longer head is none. Searched in the whole text, a data URI of 50 MB without a payload would block the process. */
const maxHeadLength = 1024;

/** File of a form, or of a data URI. Throws fieldMissing, badDataUri. */
export function fileOf(value: string | FormFile | undefined, field: string): FormFile {
  if (value instanceof FormFile) return value;
  if (typeof value !== "string" || value === "") throw fieldMissing(field);
  const head = /^data:([\w.+/-]+)?(?:;[\w=.-]+)*;base64,/.exec(value.slice(0, maxHeadLength));
  if (!head) throw badDataUri(field);
  const contentType = head[1] ?? "application/octet-stream";
  const bytes = Buffer.from(value.slice(head[0].length), "base64");
  if (bytes.length === 0) throw badDataUri(field);
  return new FormFile(`${field}.${contentType.split("/")[1] ?? "bin"}`, contentType, bytes);
}

export const dataUri = (contentType: string, bytes: Buffer): string =>
  `data:${contentType.split(";")[0]};base64,${bytes.toString("base64")}`;

/** Data URI of a file, for a field of JSON. */
export function uriOf(value: string | FormFile | undefined, field: string): string {
  if (typeof value === "string" && /^data:/.test(value)) return value;
  const file = fileOf(value, field);
  return dataUri(file.contentType, file.bytes);
}
