// Ended requests: their outcome, phases and what to change.

import { text } from "../text/request-log.ts";
import { endingOf, isWhole, type LoggedRequest, phasesOf } from "./request-phases.ts";

export const phases = ["queue", "prefill", "decode"] as const;
export type Phase = (typeof phases)[number];

/** The phase that took more than half of a request of at least a second. Undefined: none, or unknown. */
export function slowPhase(one: Parameters<typeof phasesOf>[0] & Parameters<typeof isWhole>[0]): Phase | undefined {
  if (one.total_ms < 1000) return undefined;
  const of = phasesOf(one);
  const slow = phases.find((name) => of[name] > one.total_ms / 2);
  return slow !== "queue" && isWhole(one) ? undefined : slow;
}

/** What happened and what to change. */
export function adviceOf({ end_reason: reason, http_status: status }: LoggedRequest): string {
  const { means, isFailure } = endingOf(reason);
  // A stream that failed later has the status of its start.
  return isFailure && status >= 400 ? (text.advice[status] ?? means) : means;
}

/** Output tokens per second after the first one. Undefined: unknown. */
export function outputRate(one: LoggedRequest): number | undefined {
  if (isWhole(one)) return undefined;
  const ms = phasesOf(one).decode;
  return one.output_tokens > 1 && ms > 0 ? ((one.output_tokens - 1) * 1000) / ms : undefined;
}

/** Filters of the list as the API takes them. `outcome`: `failed`, an HTTP status, or an end reason. */
export function outcomeQuery(outcome: string): Readonly<Record<string, string>> {
  if (outcome === "") return {};
  if (outcome === "failed") return { failed: "true" };
  return /^\d/.test(outcome) ? { status: outcome } : { end_reason: outcome };
}

export const logPage = (filter: Readonly<Record<string, string>>): string =>
  `/request-log?${new URLSearchParams(filter)}`;
