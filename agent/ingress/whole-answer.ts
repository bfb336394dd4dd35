// Validates and prices the usage of a complete answer.
import { scoresOf } from "../../proto/engine-scores.ts";
import { isJsonObject } from "../../proto/json-object.ts";
import type { Ticket } from "../../proto/ticket.ts";
import type { UsageSource } from "../../proto/usage.ts";
import {
  allowedFigures,
  type EngineFigures,
  findUsage,
  invalidUsage,
  isSpace,
  maxOutput,
  type Price,
  readFigures,
  usageText,
  withCost,
  withoutUsage,
  withUsage,
} from "./find-usage.ts";
import { withReasoningContent } from "./reasoning-name.ts";

export interface WholeAnswer {
  readonly body: Buffer;
  readonly figures: EngineFigures;
  readonly source: UsageSource;
}

type Terms = Pick<Ticket, "inputTokensBound" | "inputTokensEstimate" | "maxTokens" | "permits" | "units">;

/**
 * An engine without usage is billed by an estimate, which is added to the answer. Undefined for impossible usage.
 */
export function wholeAnswer(received: Buffer, price: Price, terms: Terms): WholeAnswer | undefined {
  const body = withReasoningContent(received);
  const span = findUsage(body);
  const text = span ? body.toString("utf8", span.valueStart, span.valueEnd) : "null";
  const own = readFigures(text);
  const figures = allowedFigures(own, terms);
  if (figures === invalidUsage) return undefined;
  if (span && figures) {
    // Figures above the limit are shown as they are billed.
    const shown = figures === own ? text : usageText(figures);
    const parts = [
      body.subarray(0, span.valueStart),
      Buffer.from(withCost(shown, figures, price)),
      body.subarray(span.valueEnd),
    ];
    return { body: Buffer.concat(parts), figures, source: "engine" };
  }
  const estimated: EngineFigures = {
    input: terms.inputTokensEstimate,
    cachedInput: 0,
    output: Math.min(maxOutput(terms), Math.ceil(textLength(body) / 4)),
    reasoning: 0,
  };
  const bare = span ? withoutUsage(body, span) : body;
  const priced = withCost(usageText(estimated), estimated, price);
  return { body: withUsage(bare, priced), figures: estimated, source: "estimated" };
}

interface Choice {
  readonly text?: unknown;
  readonly message?: { readonly content?: unknown; readonly reasoning_content?: unknown };
}

function textLength(body: Buffer): number {
  try {
    const { choices } = JSON.parse(body.toString()) as { choices?: readonly Choice[] };
    const texts = (choices ?? []).flatMap((c) => [c.text, c.message?.content, c.message?.reasoning_content]);
    return texts.reduce<number>((sum, text) => sum + (typeof text === "string" ? Buffer.byteLength(text) : 0), 0);
  } catch {
    return 0;
  }
}

/** Larger bodies (embeddings, pictures) are not parsed: only their first and last byte and their main key are checked. */
const maxParsedBytes = 32 * 1024;

/** Main key of the reply, and what its value must be. Other paths: any JSON object or array. */
const shapes: Readonly<Record<string, readonly [key: string, isValid: (value: unknown) => boolean]>> = {
  "/v1/completions": ["choices", (value) => areAll(value, (choice) => typeof choice["text"] === "string")],
  "/v1/chat/completions": ["choices", (value) => areAll(value, (choice) => isJsonObject(choice["message"]))],
  "/v1/embeddings": ["data", (value) => areAll(value, (item) => item["embedding"] !== undefined)],
  "/v1/audio/transcriptions": ["text", (value) => typeof value === "string"],
  "/v1/audio/translations": ["text", (value) => typeof value === "string"],
  "/v1/images/generations": ["data", (value) => areAll(value, isPicture)],
  "/v1/images/edits": ["data", (value) => areAll(value, isPicture)],
  "/v1/images/variations": ["data", (value) => areAll(value, isPicture)],
};
const textPaths: ReadonlySet<string> = new Set(["/v1/audio/transcriptions", "/v1/audio/translations"]);

const scorePaths: ReadonlySet<string> = new Set(["/v1/rerank", "/v1/score", "/rerank"]);

/**
 * False: the engine failed, and the reply is neither delivered nor billed. `status`: 200 to 299. `items`: documents to score, where
 * there are any.
 */
export function isAnswer(path: string, status: number, contentType: string, body: Buffer, items = 0): boolean {
  if (status === 204 || status === 205) return false;
  // A transcript of silence is an empty text.
  if (textPaths.has(path) && /^text\/(plain|vtt)\b|^application\/x-subrip\b/.test(contentType)) return true;
  // Raw audio does not arrive here; see passed-bytes.ts.
  if (path === "/v1/audio/speech" || !/^application\/([\w.-]+\+)?json\b/.test(contentType)) return false;
  if (scorePaths.has(path) && body.length <= maxParsedBytes) return hasScores(body, items);
  const shape = shapes[path];
  return body.length > maxParsedBytes ? hasOuterShape(body, shape?.[0]) : hasShape(body, shape);
}

function hasScores(body: Buffer, items: number): boolean {
  try {
    return scoresOf(JSON.parse(body.toString()), items).length > 0;
  } catch {
    return false;
  }
}

function hasShape(body: Buffer, shape: (typeof shapes)[string] | undefined): boolean {
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch {
    return false;
  }
  if (!shape) return typeof value === "object" && value !== null;
  return isJsonObject(value) && shape[1](value[shape[0]]);
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

const areAll = (value: unknown, isValid: (item: Record<string, unknown>) => boolean): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((item) => isJsonObject(item) && isValid(item));
const isPicture = (item: Record<string, unknown>): boolean =>
  typeof item["b64_json"] === "string" || typeof item["url"] === "string";
