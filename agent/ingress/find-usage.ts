// Finds and edits the top-level `usage` of a JSON object without parsing the object. Quotes inside JSON strings are
// escaped, so the bytes `"usage"` before a colon can only be a key; scanning on from it shows whether it is a top-level one.
import { costOf, nano, type TokenRates, toUsd, type UnitCounts } from "../../proto/money.ts";
import type { Ticket, TicketUnits } from "../../proto/ticket.ts";
import { isAllowedUsage } from "../../proto/usage-bounds.ts";

interface UsageSpan {
  /** From the key's first quote to the end of its value. */
  readonly keyStart: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

export interface EngineFigures {
  readonly input: number;
  readonly cachedInput: number;
  readonly output: number;
  readonly reasoning: number;
  /** Set for tasks that are not billed by tokens only. */
  readonly units?: UnitCounts | undefined;
}

export const noFigures: EngineFigures = { input: 0, cachedInput: 0, output: 0, reasoning: 0 };

const key = Buffer.from('"usage"');
const [quote, backslash, colon, comma, open, close, openList, closeList] = [34, 92, 58, 44, 123, 125, 91, 93];
export const isSpace = (byte: number | undefined) => byte === 32 || byte === 10 || byte === 13 || byte === 9;

/** Keys that are tried from the end. Each may cost a pass over all bytes, and a hostile engine sends many within each other. */
const maxTries = 8;

export function findUsage(json: Buffer): UsageSpan | undefined {
  let at = json.lastIndexOf(key);
  for (let tries = 0; at >= 0 && tries < maxTries; tries += 1) {
    const span = spanAt(json, at);
    if (span) return span;
    at = at === 0 ? -1 : json.lastIndexOf(key, at - 1);
  }
  const top = at < 0 ? -1 : lastTopLevelKey(json);
  return top < 0 ? undefined : spanAt(json, top);
}

/** Place of the last top-level key `usage`, in one pass; -1: none. */
function lastTopLevelKey(json: Buffer): number {
  let depth = 0;
  let last = -1;
  for (let i = 0; i < json.length; i++) {
    const byte = json[i];
    if (byte === quote) {
      const start = i;
      for (i++; i < json.length && json[i] !== quote; i++) if (json[i] === backslash) i++;
      if (depth !== 1 || json.compare(key, 0, key.length, start, i + 1) !== 0) continue;
      let after = i + 1;
      while (isSpace(json[after])) after++;
      if (json[after] === colon) last = start;
    } else if (byte === open || byte === openList) depth++;
    else if (byte === close || byte === closeList) depth--;
  }
  return last;
}

function spanAt(json: Buffer, keyStart: number): UsageSpan | undefined {
  let i = keyStart + key.length;
  while (isSpace(json[i])) i++;
  if (json[i] !== colon) return undefined;
  i++;
  while (isSpace(json[i])) i++;
  const valueStart = i;
  let valueEnd = -1;
  let depth = 0;
  for (; i < json.length; i++) {
    const byte = json[i];
    if (byte === quote) {
      for (i++; i < json.length && json[i] !== quote; i++) if (json[i] === backslash) i++;
    } else if (byte === open || byte === openList) depth++;
    else if (byte === close || byte === closeList) {
      if (depth === 0) {
        if (valueEnd < 0) valueEnd = i;
        break;
      }
      depth--;
      if (depth === 0 && valueEnd < 0) valueEnd = i + 1;
    } else if (byte === comma && depth === 0 && valueEnd < 0) valueEnd = i;
  }
  // The brace that ended the scan closes the object of the key: at top level nothing but space follows it.
  for (let rest = i + 1; rest < json.length; rest++) if (!isSpace(json[rest])) return undefined;
  if (i >= json.length || valueEnd < 0) return undefined;
  while (isSpace(json[valueEnd - 1])) valueEnd--;
  return { keyStart, valueStart, valueEnd };
}

/** The object without that key and its comma. */
export function withoutUsage(json: Buffer, span: UsageSpan): Buffer {
  let from = span.keyStart;
  let to = span.valueEnd;
  while (isSpace(json[from - 1])) from--;
  if (json[from - 1] === comma) from--;
  else {
    while (isSpace(json[to])) to++;
    if (json[to] === comma) to++;
  }
  return Buffer.concat([json.subarray(0, from), json.subarray(to)]);
}

/** The object with `"usage":` and this text as its last key; the object must not have one. */
export function withUsage(json: Buffer, usage: string): Buffer {
  const end = json.lastIndexOf(close as number);
  if (end < 0) return json;
  let before = end - 1;
  while (isSpace(json[before])) before--;
  const text = `${json[before] === open ? "" : ","}"usage":${usage}`;
  return Buffer.concat([json.subarray(0, end), Buffer.from(text), json.subarray(end)]);
}

/** Result for impossible usage: negative, fractional or not a number. */
export const invalidUsage = "invalid";

/** Undefined where the engine gives no usage. The figures still have to be compared with the ticket. */
export function readFigures(usage: string): EngineFigures | typeof invalidUsage | undefined {
  let value: unknown;
  try {
    value = JSON.parse(usage);
  } catch {
    return invalidUsage;
  }
  if (value === null) return undefined;
  if (typeof value !== "object" || Array.isArray(value)) return invalidUsage;
  const u = value as Record<string, unknown>;
  if (u["prompt_tokens"] == null) return undefined;
  const nested = (name: string, field: string) => (u[name] as Record<string, unknown> | null | undefined)?.[field];
  const figures = {
    input: count(u["prompt_tokens"]),
    cachedInput: count(nested("prompt_tokens_details", "cached_tokens")),
    output: count(u["completion_tokens"]),
    reasoning: count(nested("completion_tokens_details", "reasoning_tokens")),
  };
  if (Object.values(figures).some(Number.isNaN)) return invalidUsage;
  return { ...figures, cachedInput: Math.min(figures.input, figures.cachedInput) };
}

/** NaN for a value that is not a count; 0 for an absent one. */
export const count = (value: unknown): number => {
  if (value == null) return 0;
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : Number.NaN;
};

/** Rates of a request, and the hold: the maximum charge. */
export interface Price {
  readonly rates: TokenRates;
  readonly max: bigint;
}

/** The usage text with `estimated_cost` in USD, the amount that is billed, after its fields. */
export function withCost(usage: string, figures: EngineFigures, price: Price): string {
  const full = costOf(figures, price.rates);
  const cost = `"estimated_cost":${toUsd(full < price.max ? full : nano(price.max))}`;
  const own = usage.includes('"estimated_cost"') ? withoutPrices(usage, figures) : usage;
  const end = own.lastIndexOf("}");
  const isEmpty = own.slice(1, end).trim() === "";
  return `${own.slice(0, end).trimEnd()}${isEmpty ? "" : ","}${cost}}`;
}

/** The price of an upstream must not reach our customers. */
function withoutPrices(usage: string, figures: EngineFigures): string {
  try {
    return JSON.stringify(JSON.parse(usage, (name, value) => (name === "estimated_cost" ? undefined : value)));
  } catch {
    // Nested too deep to be written again.
    return usageText(figures);
  }
}

/** Usage text for engines that report none: the figures that are billed. */
export function usageText(figures: EngineFigures): string {
  return JSON.stringify({
    prompt_tokens: figures.input,
    completion_tokens: figures.output,
    total_tokens: figures.input + figures.output,
  });
}

/**
 * Tokens above `max_tokens` that an engine may generate or report before it counts as ignoring the limit: some engines send an
 * end token or a tool call's head as tokens of their own. They are delivered, not billed.
 */
export const slackTokens = 16;

type Reported = EngineFigures | typeof invalidUsage | undefined;
type Terms = Pick<Ticket, "inputTokensBound" | "maxTokens" | "permits"> & { readonly units?: TicketUnits };

/** Generated tokens that are billed at most; without a limit for tasks that are not text. */
export const maxOutput = ({ permits, maxTokens, units }: Terms): number =>
  units ? Number.POSITIVE_INFINITY : permits * maxTokens;

/** The figures with at most the allowed output; `invalid` when they cannot be true. Undefined stays undefined. */
export function allowedFigures(figures: EngineFigures, terms: Terms): EngineFigures | typeof invalidUsage;
export function allowedFigures(figures: Reported, terms: Terms): Reported;
export function allowedFigures(figures: Reported, terms: Terms): Reported {
  if (figures === undefined || figures === invalidUsage) return figures;
  const max = maxOutput(terms);
  if (figures.output > max + slackTokens) return invalidUsage;
  const billed =
    figures.output > max ? { ...figures, output: max, reasoning: Math.min(figures.reasoning, max) } : figures;
  return isAllowedUsage(billed, terms) ? billed : invalidUsage;
}
