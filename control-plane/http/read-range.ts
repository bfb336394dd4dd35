// Ranges of time as statistics take them: unix seconds, or `now` less so much.
import { ServiceError } from "../service-error.ts";

export class BadRange extends ServiceError {
  readonly code = "bad_time";
  constructor(param: string, what: string) {
    super(`${param} ${what}`, { param });
  }
}

const unitMs: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
  M: 30 * 86_400_000,
};
const mostMs = 400 * 86_400_000;

/** In unix ms. Throws BadRange. `from` without a value: five hours before `to`. */
export function readRange(
  from: string | undefined,
  to: string | undefined,
  nowMs: number,
): { readonly fromMs: number; readonly toMs: number } {
  const toMs = timeOf("to", to || "now", nowMs);
  const fromMs = from ? timeOf("from", from, nowMs) : toMs - 5 * (unitMs["h"] as number);
  if (fromMs > toMs) throw new BadRange("from", "lies after `to`.");
  if (toMs - fromMs > mostMs)
    throw new BadRange("from", "lies more than 400 days before `to`. Ask for a shorter range.");
  return { fromMs, toMs };
}

function timeOf(param: string, text: string, nowMs: number): number {
  const ago = /^now(?:-(\d{1,9})([smhdwM]))?$/.exec(text);
  if (ago) return nowMs - Number(ago[1] ?? 0) * (unitMs[ago[2] ?? "s"] as number);
  if (/^\d{1,11}(\.\d{1,9})?$/.test(text)) return Math.floor(Number(text) * 1000);
  throw new BadRange(param, "is not a time: give unix seconds, or `now-5h` with a unit of s, m, h, d, w or M.");
}
