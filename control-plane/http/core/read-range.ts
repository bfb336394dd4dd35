// Time ranges of statistics: unix seconds, or `now` minus a duration.

import { invalid } from "../../service-error.ts";
import { badTime } from "../errors/errors.ts";

/** Returns unix ms, from 1970, of unix seconds or ISO 8601. Throws badTime, which names the field and its place. */
export function readTime(param: string, text: string, place: "body" | "query" = "body"): number {
  const ms = /^\d{1,11}$/.test(text) ? Number(text) * 1000 : Date.parse(text);
  // JavaScript reads years that PostgreSQL cannot hold.
  if (!(ms >= 0)) throw badTime(param, place);
  return ms;
}

export const badRange = (param: string, what: string) =>
  invalid("bad_time", `${param} ${what}`, { param, in: "query" });

const unitMs: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
  M: 30 * 86_400_000,
};
const maxMs = 400 * 86_400_000;

/** Returns unix ms. Throws badRange. `from` without a value: five hours before `to`. */
export function readRange(
  from: string | undefined,
  to: string | undefined,
  nowMs: number,
): { readonly fromMs: number; readonly toMs: number } {
  const toMs = timeOf("to", to || "now", nowMs);
  const fromMs = from ? timeOf("from", from, nowMs) : toMs - 5 * (unitMs["h"] as number);
  if (fromMs > toMs) throw badRange("from", "must not be after `to`.");
  if (toMs - fromMs > maxMs) throw badRange("from", "must be at most 400 days before `to`.");
  return { fromMs, toMs };
}

function timeOf(param: string, text: string, nowMs: number): number {
  const ago = /^now(?:-(\d{1,9})([smhdwM]))?$/.exec(text);
  if (ago) return nowMs - Number(ago[1] ?? 0) * (unitMs[ago[2] ?? "s"] as number);
  if (/^\d{1,11}(\.\d{1,9})?$/.test(text)) return Math.floor(Number(text) * 1000);
  throw badRange(param, "is not a time: give unix seconds, or `now-5h` with a unit of s, m, h, d, w or M.");
}
