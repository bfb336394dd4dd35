// Retry schedule of failed calls. Pure.
import type { Outcome } from "./store.ts";

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

/** Delay before each attempt: 8 attempts in about 18 hours. */
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
const maxRetryAfterMs = hourMs;
const honoured: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** Returns the delay until the next attempt after `tries` failed ones; undefined: no more attempts. `random` in [0, 1). */
export function nextDelayMs(
  tries: number,
  { status, retryAfterMs }: { readonly status?: number | undefined; readonly retryAfterMs?: number | undefined },
  random: number,
): number | undefined {
  const base = attemptDelaysMs[tries];
  if (base === undefined) return undefined;
  const ownMs = base * (1 + spread * (2 * random - 1));
  if (retryAfterMs === undefined || status === undefined || !honoured.has(status)) return ownMs;
  return Math.max(ownMs, Math.min(retryAfterMs, maxRetryAfterMs));
}

/** Parses seconds or an HTTP date. */
export function readRetryAfter(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text) * secondMs;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs);
}

/** Classifies a response; redirects are never followed. */
export function outcomeOf(status: number): Outcome {
  if (status >= 200 && status < 300) return "ok";
  if (status < 400) return "3xx";
  return status < 500 ? "4xx" : "5xx";
}
