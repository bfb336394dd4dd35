// Finds and edits the top-level `usage` of a JSON object without parsing the object. Quotes inside JSON strings are
// escaped, so the bytes `"usage"` before a colon can only be a key; scanning on from it shows whether it is a top-level one.
import { costOf, type TokenRates, toUsd, type UnitCounts } from "../../proto/money.ts";

export interface UsageSpan {
  /** From the key's first quote to the end of its value. */
  readonly keyStart: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/** What an engine says it did. */
export interface EngineFigures {
  readonly input: number;
  readonly cachedInput: number;
  readonly output: number;
  readonly reasoning: number;
  /** Of a task that is not billed by tokens alone. */
  readonly units?: UnitCounts | undefined;
}

export const noFigures: EngineFigures = { input: 0, cachedInput: 0, output: 0, reasoning: 0 };

const key = Buffer.from('"usage"');
const [quote, backslash, colon, comma, open, close, openList, closeList] = [34, 92, 58, 44, 123, 125, 91, 93];
const isSpace = (byte: number | undefined) => byte === 32 || byte === 10 || byte === 13 || byte === 9;

export function findUsage(json: Buffer): UsageSpan | undefined {
  for (let at = json.lastIndexOf(key); at >= 0; at = at === 0 ? -1 : json.lastIndexOf(key, at - 1)) {
    const span = spanAt(json, at);
    if (span) return span;
  }
  return undefined;
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
  // The brace that ended the scan closes the object the key stands in: at top level nothing but space follows it.
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

/** Undefined for `null` and for anything that is no usage object: an engine's text is not trusted. */
export function readFigures(usage: string): EngineFigures | undefined {
  let value: unknown;
  try {
    value = JSON.parse(usage);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const u = value as Record<string, unknown>;
  const nested = (name: string, field: string) => (u[name] as Record<string, unknown> | null | undefined)?.[field];
  const input = count(u["prompt_tokens"]);
  if (input === undefined) return undefined;
  return {
    input,
    cachedInput: Math.min(input, count(nested("prompt_tokens_details", "cached_tokens")) ?? 0),
    output: count(u["completion_tokens"]) ?? 0,
    reasoning: count(nested("completion_tokens_details", "reasoning_tokens")) ?? 0,
  };
}

const count = (value: unknown) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;

/** The engine's own usage text with `estimated_cost` in USD after its fields. */
export function withCost(usage: string, figures: EngineFigures, rates: TokenRates): string {
  const cost = `"estimated_cost":${toUsd(costOf(figures, rates))}`;
  // An upstream that prices by itself must not show its price to our customers.
  if (usage.includes('"estimated_cost"')) {
    const { estimated_cost: _, ...own } = JSON.parse(usage) as Record<string, unknown>;
    return withCost(JSON.stringify(own), figures, rates);
  }
  const end = usage.lastIndexOf("}");
  const isEmpty = usage.slice(1, end).trim() === "";
  return `${usage.slice(0, end).trimEnd()}${isEmpty ? "" : ","}${cost}}`;
}

/** For engines that say nothing: what will be billed, in their place. */
export function usageText(figures: EngineFigures): string {
  return JSON.stringify({
    prompt_tokens: figures.input,
    completion_tokens: figures.output,
    total_tokens: figures.input + figures.output,
  });
}
