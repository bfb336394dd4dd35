// The usage record: one per request and attempt, written by the agent, settled by the control plane.

import type { UnitCounts } from "./money.ts";

/**
 * Source of the figures: the engine's own figures, frames counted at the agent, or an estimate from bytes.
 * `engine_usage_rejected`: the engine reported figures that the ticket does not allow; what was delivered is billed instead.
 */
const usageSources = ["engine", "counted", "estimated", "engine_usage_rejected"] as const;
export type UsageSource = (typeof usageSources)[number];
/** `lost`: the agent restarted and has a start row but no end; the gateway's delivered count decides the charge. */
export const endReasons = [
  "stop",
  "client_gone",
  "engine_error",
  "engine_timeout",
  "refused",
  "drained",
  "lost",
] as const;
export type EndReason = (typeof endReasons)[number];
export const isUsageSource = (value: unknown): value is UsageSource => usageSources.some((one) => one === value);
export const isEndReason = (value: unknown): value is EndReason => endReasons.some((one) => one === value);
/** Every other end is reported, counted and listed as a failed request. */
export const endedAsAsked: readonly EndReason[] = ["stop", "client_gone"];

export interface UsageFigures {
  /** Prompt tokens, cached ones included. */
  readonly input: number;
  readonly cachedInput: number;
  /** Generated tokens (reasoning included); what is billed. */
  readonly output: number;
  readonly reasoning: number;
  /** Units of a task that is not billed by tokens only. */
  readonly units?: UnitCounts | undefined;
  readonly source: UsageSource;
  readonly endReason: EndReason;
}

/** Header of a complete answer, trailer of a stream: the agent's figures on their way to the gateway. */
export const usageHeader = "x-stoker-usage";
/** Header of an answer that never reached the engine: the gateway may try elsewhere. */
export const refusalHeader = "x-stoker-refusal";
/** `busy`: queue full or its deadline passed; `draining`, `not_ready`, `unknown_instance`: go elsewhere; `spool`: cannot write usage; `ticket`: refused ticket. */
export type Refusal = "busy" | "draining" | "not_ready" | "unknown_instance" | "spool" | "ticket" | "stops_server";

/** Usage of an engine whose response cannot carry JSON: a header of the response, or its trailer. */
export const unitsHeader = "x-stoker-units";

/** Names of the units in JSON, by field of UnitCounts. */
export const unitNames = {
  characters: "characters",
  audio_ms: "audioMs",
  images: "images",
  image_pixel_steps: "imagePixelSteps",
  items: "items",
} as const satisfies Record<string, keyof UnitCounts>;
type UnitName = keyof typeof unitNames;

export const noUnits: UnitCounts = { characters: 0, audioMs: 0, images: 0, imagePixelSteps: 0, items: 0 };

/** Fields `characters`, `audio_ms`, `images`, `image_pixel_steps` and `items`; undefined when none of them is a count. */
export function readUnits(fields: Readonly<Record<string, unknown>>): UnitCounts | undefined {
  let found: Record<keyof UnitCounts, number> | undefined;
  for (const [name, key] of Object.entries(unitNames) as [UnitName, keyof UnitCounts][]) {
    const value = fields[name];
    if (!Number.isSafeInteger(value) || (value as number) < 0) continue;
    found ??= { ...noUnits };
    found[key] = value as number;
  }
  return found;
}

/** The fields that `readUnits` reads, of what is known. */
export function unitFields(units: Partial<UnitCounts>): Record<string, number> {
  const known = (Object.entries(unitNames) as [UnitName, keyof UnitCounts][]).filter(
    ([, key]) => units[key] !== undefined,
  );
  return Object.fromEntries(known.map(([name, key]) => [name, units[key] as number]));
}

/** `characters=12,audio_ms=3400`: what is not 0. */
export function encodeUnits(units: UnitCounts): string {
  const parts = (Object.entries(unitNames) as [UnitName, keyof UnitCounts][]).filter(([, key]) => units[key] > 0);
  return parts.map(([name, key]) => `${name}=${units[key]}`).join(",");
}

/** Undefined when the text names no count. */
export function decodeUnits(text: string): UnitCounts | undefined {
  const pairs = text.split(",").map((part) => part.trim().split("=", 2) as [string, string?]);
  return readUnits(Object.fromEntries(pairs.map(([name, value]) => [name, value ? Number(value) : undefined])));
}

export function encodeUsage(u: UsageFigures): string {
  const text = `${u.input};${u.cachedInput};${u.output};${u.reasoning};${u.source};${u.endReason}`;
  return u.units ? `${text};${encodeUnits(u.units)}` : text;
}

/** Undefined when the text is not usage: the hold then waits for the record. */
export function decodeUsage(text: string): UsageFigures | undefined {
  const [input, cachedInput, output, reasoning, source, endReason, units] = text.split(";");
  if (!isUsageSource(source) || !isEndReason(endReason)) return undefined;
  const usage = {
    input: figureOf(input),
    cachedInput: figureOf(cachedInput),
    output: figureOf(output),
    reasoning: figureOf(reasoning),
    source,
    endReason,
  };
  if (Number.isNaN(usage.input + usage.cachedInput + usage.output + usage.reasoning)) return undefined;
  return units === undefined ? usage : { ...usage, units: decodeUnits(units) ?? noUnits };
}

/** NaN for anything but a count. */
function figureOf(text: string | undefined): number {
  const figure = Number(text);
  return Number.isSafeInteger(figure) && figure >= 0 ? figure : Number.NaN;
}
