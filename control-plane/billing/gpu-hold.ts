// Decides which minutes of a running instance are held, and how much is reserved for them. Pure.
import { minuteMs, minuteOf } from "../../proto/gpu-minute.ts";
import { costOfMinutes, type GpuTariff } from "./gpu-price.ts";

/** [fromMs, untilMs), whole minutes. */
export interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface FoundHold {
  /** Disjoint, in order. */
  readonly covered: readonly Span[];
  readonly settledUntilMs: number;
  /** Reserved for it and not yet spent, nano-USD. */
  readonly reserved: bigint;
  /** Unreserved money of account and month; undefined: no limit. Below 0 after a limit was lowered. */
  readonly available: bigint | undefined;
  readonly suspendReason: string | null;
  readonly tariff: GpuTariff;
}

export type HoldVerdict =
  | { readonly kind: "held"; readonly cover: Span; readonly reserve: bigint }
  | { readonly kind: "refused"; readonly why: HoldRefusal };

export type HoldRefusal =
  /** Cost of the next minutes, nano-USD. */
  { readonly kind: "funds"; readonly needed: bigint } | { readonly kind: "suspended"; readonly reason: string };

const aheadMs = 5 * minuteMs;

/** Minutes that are held at `nowMs`: the present one and all that begin in the next five. */
export function spanAhead(nowMs: number): Span {
  return { fromMs: minuteOf(nowMs), untilMs: minuteOf(nowMs + aheadMs - 1) + minuteMs };
}

export function holdAhead(found: FoundHold, gpus: number, nowMs: number): HoldVerdict {
  if (found.suspendReason !== null) return { kind: "refused", why: { kind: "suspended", reason: found.suspendReason } };
  const cover = spanAhead(nowMs);
  // No later minute can be settled; an earlier version may have recorded one.
  const settledUntilMs = Math.min(found.settledUntilMs, cover.fromMs + minuteMs);
  const reserve = unsettled([...found.covered, cover], settledUntilMs).reduce(
    (sum, { fromMs, untilMs }) => sum + costOfMinutes(found.tariff, gpus, fromMs, untilMs),
    0n,
  );
  const more = reserve - found.reserved;
  if (more > 0n && found.available !== undefined && found.available < more) {
    const needed = costOfMinutes(found.tariff, gpus, cover.fromMs, cover.untilMs);
    return { kind: "refused", why: { kind: "funds", needed } };
  }
  return { kind: "held", cover, reserve };
}

/** Parts of the spans from `fromMs` on, each minute once. */
function unsettled(spans: readonly Span[], fromMs: number): readonly Span[] {
  const merged: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.fromMs - b.fromMs)) {
    const startMs = Math.max(span.fromMs, fromMs, merged.at(-1)?.untilMs ?? 0);
    if (startMs < span.untilMs) merged.push({ fromMs: startMs, untilMs: span.untilMs });
  }
  return merged;
}
