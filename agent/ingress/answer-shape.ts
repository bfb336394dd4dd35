// Checks that an engine's complete reply is an answer to the request. Anything else is a failure of the engine: it is neither
// delivered nor billed.
import { isSpace } from "./find-usage.ts";

/** Larger bodies (embeddings, pictures) are not parsed: only their first and last byte and their main key are checked. */
const maxParsedBytes = 32 * 1024;

/** Main key of the reply, and what its value must be. Other paths: any JSON object or array. */
const shapes: Readonly<Record<string, readonly [key: string, isValid: (value: unknown) => boolean]>> = {
  "/v1/completions": ["choices", (value) => areAll(value, (choice) => typeof choice["text"] === "string")],
  "/v1/chat/completions": ["choices", (value) => areAll(value, (choice) => isObject(choice["message"]))],
  "/v1/embeddings": ["data", (value) => areAll(value, (item) => item["embedding"] !== undefined)],
  "/v1/audio/transcriptions": ["text", (value) => typeof value === "string"],
  "/v1/audio/translations": ["text", (value) => typeof value === "string"],
  "/v1/images/generations": ["data", (value) => areAll(value, isPicture)],
  "/v1/images/edits": ["data", (value) => areAll(value, isPicture)],
  "/v1/images/variations": ["data", (value) => areAll(value, isPicture)],
};
const textPaths: ReadonlySet<string> = new Set(["/v1/audio/transcriptions", "/v1/audio/translations"]);

/** `status`: 200 to 299. */
export function isAnswer(path: string, status: number, contentType: string, body: Buffer): boolean {
  if (status === 204 || status === 205) return false;
  // A transcript of silence is an empty text.
  if (textPaths.has(path) && /^text\/(plain|vtt)\b|^application\/x-subrip\b/.test(contentType)) return true;
  // Raw audio does not arrive here; see passed-bytes.ts.
  if (path === "/v1/audio/speech" || !/^application\/([\w.-]+\+)?json\b/.test(contentType)) return false;
  const shape = shapes[path];
  return body.length > maxParsedBytes ? hasOuterShape(body, shape?.[0]) : hasShape(body, shape);
}

function hasShape(body: Buffer, shape: (typeof shapes)[string] | undefined): boolean {
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch {
    return false;
  }
  if (!shape) return typeof value === "object" && value !== null;
  return isObject(value) && shape[1](value[shape[0]]);
}

const [openBrace, closeBrace, openBracket, closeBracket] = [123, 125, 91, 93];

function hasOuterShape(body: Buffer, key: string | undefined): boolean {
  let first = 0;
  let last = body.length - 1;
  while (isSpace(body[first])) first++;
  while (isSpace(body[last])) last--;
  const isObjectText = body[first] === openBrace && body[last] === closeBrace;
  if (key === undefined) return isObjectText || (body[first] === openBracket && body[last] === closeBracket);
  return isObjectText && body.includes(`"${key}"`);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const areAll = (value: unknown, isValid: (item: Record<string, unknown>) => boolean): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((item) => isObject(item) && isValid(item));
const isPicture = (item: Record<string, unknown>): boolean =>
  typeof item["b64_json"] === "string" || typeof item["url"] === "string";
