// A running instance holds its next five minutes at its account. Decided from values alone: what to promise, what to reserve.
import { minuteMs, minuteOf } from "../../proto/gpu-minute.ts";
import { costOfMinutes, type GpuTariff } from "./gpu-price.ts";

/** [fromMs, untilMs), whole minutes. */
export interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface FoundHold {
  /** Apart, in order. */
  readonly covered: readonly Span[];
  readonly settledUntilMs: number;
  /** Reserved for it and not yet spent, nano-USD. */
  readonly reserved: bigint;
  /** What account and month have beside everything reserved; undefined: no limit. Below 0 when a limit was lowered. */
  readonly room: bigint | undefined;
  readonly suspendReason: string | null;
  readonly tariff: GpuTariff;
}

export type HoldVerdict =
  | { readonly kind: "held"; readonly cover: Span; readonly reserve: bigint }
  | { readonly kind: "refused"; readonly why: HoldRefusal };

export type HoldRefusal =
  /** What the next minutes cost, nano-USD. */
  { readonly kind: "funds"; readonly needed: bigint } | { readonly kind: "suspended"; readonly reason: string };

const aheadMs = 5 * minuteMs;

/** The minutes that are held at `nowMs`: the present one and all that begin in the next five. */
export function spanAhead(nowMs: number): Span {
  return { fromMs: minuteOf(nowMs), untilMs: minuteOf(nowMs + aheadMs - 1) + minuteMs };
}

export function holdAhead(found: FoundHold, gpus: number, nowMs: number): HoldVerdict {
  if (found.suspendReason !== null) return { kind: "refused", why: { kind: "suspended", reason: found.suspendReason } };
  const cover = spanAhead(nowMs);
  // No later minute is settled, whatever an earlier version noted.
  const settledUntilMs = Math.min(found.settledUntilMs, cover.fromMs + minuteMs);
  const reserve = unsettled([...found.covered, cover], settledUntilMs).reduce(
    (sum, { fromMs, untilMs }) => sum + costOfMinutes(found.tariff, gpus, fromMs, untilMs),
    0n,
  );
  const more = reserve - found.reserved;
  if (more > 0n && found.room !== undefined && found.room < more) {
    const needed = costOfMinutes(found.tariff, gpus, cover.fromMs, cover.untilMs);
    return { kind: "refused", why: { kind: "funds", needed } };
  }
  return { kind: "held", cover, reserve };
}

/** What of the spans begins at `fromMs` or later, each minute once. */
function unsettled(spans: readonly Span[], fromMs: number): readonly Span[] {
  const merged: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.fromMs - b.fromMs)) {
    const startMs = Math.max(span.fromMs, fromMs, merged.at(-1)?.untilMs ?? 0);
    if (startMs < span.untilMs) merged.push({ fromMs: startMs, untilMs: span.untilMs });
  }
  return merged;
}
