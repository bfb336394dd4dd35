// When a call that failed is made again. Pure.
import type { Outcome } from "./store.ts";

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

/** Before each attempt: 8 of them in about 18 hours. */
export const attemptDelaysMs: readonly number[] = [
  0,
  5 * secondMs,
  30 * secondMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
];

const spread = 0.2;
const mostRetryAfterMs = hourMs;
const honoured: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/**
 * Until the next attempt after one that failed, when `tries` of them were made; undefined: that was the last. `random` in
 * [0, 1).
 */
export function nextDelayMs(
  tries: number,
  { status, retryAfterMs }: { readonly status?: number | undefined; readonly retryAfterMs?: number | undefined },
  random: number,
): number | undefined {
  const base = attemptDelaysMs[tries];
  if (base === undefined) return undefined;
  const ownMs = base * (1 + spread * (2 * random - 1));
  if (retryAfterMs === undefined || status === undefined || !honoured.has(status)) return ownMs;
  return Math.max(ownMs, Math.min(retryAfterMs, mostRetryAfterMs));
}

/** Seconds, or a date of HTTP. */
export function readRetryAfter(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text) * secondMs;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs);
}

/** Of an answer; a redirect is never followed. */
export function outcomeOf(status: number): Outcome {
  if (status >= 200 && status < 300) return "ok";
  if (status < 400) return "3xx";
  return status < 500 ? "4xx" : "5xx";
}
