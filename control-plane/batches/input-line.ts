// One line of an input file: `{"custom_id", "method", "url", "body"}`. Pure.
import { isJsonObject } from "../../proto/json-object.ts";
import { scanJson } from "../../proto/json-scan.ts";
import type { ErrorCode } from "../error-codes.ts";
import type { BatchEndpoint, BatchError } from "./batch.ts";

export interface InputLine {
  readonly customId: string;
  readonly model: string;
}

/** The same as for a single request. */
export const maxLineBytes = 10 * 1024 * 1024;
const maxCustomIdLength = 512;

type Problem = Omit<BatchError, "line">;
const problem = (code: ErrorCode, message: string, param: string | null = null): Problem => ({ code, message, param });

/** Decoding it anyway would change the request. */
export const notUtf8 = problem("invalid_encoding", "The line is not valid UTF-8. Write the file in UTF-8.");

export function readInputLine(text: string | undefined, endpoint: BatchEndpoint): InputLine | Problem {
  if (text === undefined) return problem("line_too_large", "The line must be at most 10 MiB, the limit of a request.");
  if (typeof scanJson(Buffer.from(text)) === "string")
    return problem("invalid_json_line", "The line is nested too deeply or has too many JSON values.");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return problem("invalid_json_line", "The line is not valid JSON. Write one JSON object per line.");
  }
  if (!isJsonObject(value)) return problem("invalid_json_line", "The line is not a JSON object.");
  const { custom_id: customId, method, url, body } = value;
  if (typeof customId !== "string" || customId === "" || customId.length > maxCustomIdLength)
    return problem(
      "invalid_custom_id",
      `\`custom_id\` must be a string of 1 to ${maxCustomIdLength} characters.`,
      "custom_id",
    );
  if (method !== "POST") return problem("invalid_method", "`method` must be POST.", "method");
  if (url !== endpoint) {
    const given = typeof url === "string" ? quoted(url, 100) : "missing";
    return problem("mismatched_url", `\`url\` must be ${endpoint}, the batch's endpoint; it is ${given}.`, "url");
  }
  if (!isJsonObject(body)) return problem("invalid_body", "`body` must be a JSON object, the request itself.", "body");
  const { model } = body;
  if (typeof model !== "string") return problem("model_required", "`body.model` must name the model.", "body.model");
  if (body["stream"] === true)
    return problem("stream_not_supported", "Batches do not support streaming. Remove `body.stream`.", "body.stream");
  return { customId, model };
}

/** Customer text, truncated and without NUL and unpaired surrogates, which PostgreSQL rejects. */
export const quoted = (text: string, maxLength: number): string =>
  text.slice(0, maxLength).replaceAll("\0", "").toWellFormed();

export const isProblem = (line: InputLine | Problem): line is Problem => "code" in line;
