// What a run that failed means for its request: once more, when, or the end. Pure.
import { BudgetStoreAway } from "../billing/hold.ts";
import {
  AnswersFull,
  ColdStartsFull,
  EngineOverloaded,
  InstancesUnreachable,
  ModelNotReady,
  UpstreamBroken,
  UpstreamTimeout,
} from "../inference/errors.ts";
import { RateLimited } from "../quotas/errors.ts";
import { ServiceError } from "../service-error.ts";
import type { WebhookJob } from "./job.ts";

export type JobFailure =
  | { readonly kind: "again"; readonly afterMs: number; readonly isFault: boolean }
  | { readonly kind: "over"; readonly error: { readonly code: string; readonly message: string } };

/** Runs that broke; a request that ends its control plane every time ends here too. */
const mostFaults = 4;
const firstPauseMs = 1_000;
const mostPauseMs = 60_000;
/** Nobody starts these but their owner. */
const isAtRest: ReadonlySet<string> = new Set(["failed", "stopped", "stopping", "deleted"]);

export function failureOf(error: unknown, { claims, faults }: Pick<WebhookJob, "claims" | "faults">): JobFailure {
  const told = error instanceof ServiceError ? error : undefined;
  const pauseMs = Math.min(mostPauseMs, firstPauseMs * 2 ** Math.min(claims - 1, 10));
  const afterMs = Math.max(pauseMs, Math.min(mostPauseMs, (told?.retryAfterSeconds ?? 0) * 1_000));
  if (told && isBusy(told)) return { kind: "again", afterMs, isFault: false };
  // What is no ServiceError is a defect of ours, or a database that is away: both may pass.
  const mayPass = told === undefined || told instanceof UpstreamBroken || told instanceof UpstreamTimeout;
  if (mayPass && faults < mostFaults) return { kind: "again", afterMs, isFault: true };
  return {
    kind: "over",
    error: {
      code: told?.code ?? "internal_error",
      message: told?.message ?? "Something went wrong on our side. Tell your operator the request id.",
    },
  };
}

/** Nothing ran, and in a while something may. */
const isBusy = (error: ServiceError): boolean =>
  error instanceof RateLimited ||
  error instanceof EngineOverloaded ||
  error instanceof ColdStartsFull ||
  error instanceof AnswersFull ||
  error instanceof InstancesUnreachable ||
  error instanceof BudgetStoreAway ||
  error.code === "store_away" ||
  (error instanceof ModelNotReady && !isAtRest.has(error.phase));

export const expired = {
  code: "webhook_expired",
  message: "The request waited for a day and was not begun: its model had no room all the while. Send it again.",
} as const;

export const broken = {
  code: "upstream_error",
  message: "The request was begun several times and broke off each time. Send it again.",
} as const;

export const hasBrokenTooOften = (faults: number): boolean => faults > mostFaults;
