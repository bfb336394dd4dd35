// Decides after a failed run whether the request is retried, and when. Pure.
import { ModelNotReady, UnusableAnswer } from "../inference/errors.ts";
import { ServiceError } from "../service-error.ts";
import type { WebhookJob } from "./job.ts";

export type JobFailure =
  | { readonly kind: "again"; readonly afterMs: number; readonly isFault: boolean }
  | { readonly kind: "over"; readonly error: { readonly code: string; readonly message: string } };

/** Runs that broke. A request that crashes its control plane each time ends here too. */
const maxFaults = 4;
const firstPauseMs = 1_000;
const maxPauseMs = 60_000;
/** Only the owner starts a deployment in these states. */
const isAtRest: ReadonlySet<string> = new Set(["failed", "stopped", "stopping", "deleted"]);

export function failureOf(error: unknown, { claims, faults }: Pick<WebhookJob, "claims" | "faults">): JobFailure {
  const known = error instanceof ServiceError ? error : undefined;
  const pauseMs = Math.min(maxPauseMs, firstPauseMs * 2 ** Math.min(claims - 1, 10));
  const afterMs = Math.max(pauseMs, Math.min(maxPauseMs, (known?.retryAfterSeconds ?? 0) * 1_000));
  if (known && isBusy(known)) return { kind: "again", afterMs, isFault: false };
  // Any other error is a defect in this service.
  const isBroken = known?.kind === "upstream_failed" || known?.kind === "upstream_timeout";
  const mayPass = known === undefined || (isBroken && !(known instanceof UnusableAnswer));
  if (mayPass && faults < maxFaults) return { kind: "again", afterMs, isFault: true };
  return {
    kind: "over",
    error: {
      code: known?.code ?? "internal_error",
      message: known?.message ?? "Internal error. Report the request id to your operator.",
    },
  };
}

/** Nothing ran, and a later attempt may succeed. */
const isBusy = (error: ServiceError): boolean =>
  error.kind === "rate_limited" ||
  (error.kind === "unavailable" && !(error instanceof ModelNotReady && isAtRest.has(error.params.phase)));

export const expired = {
  code: "webhook_expired",
  message: "The request expired after one day in the queue because its model had no capacity. Send it again.",
} as const;

export const broken = {
  code: "upstream_error",
  message: "The request failed on every attempt. Send it again.",
} as const;

export const hasBrokenTooOften = (faults: number): boolean => faults > maxFaults;
