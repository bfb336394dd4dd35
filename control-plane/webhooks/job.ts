// Native request whose result is sent to a webhook: accepted now, run later by any control plane.
import type { AccountId, BudgetId, KeyId, RequestId } from "../../proto/ids.ts";
import type { TraceContext } from "../../proto/trace-context.ts";
import { bothModels, type Caller } from "../accounts/caller.ts";

/** Permissions of a scoped token at acceptance. Its expiry does not apply: it was valid then. */
export interface JobToken {
  readonly models: readonly string[] | null;
  readonly budget: BudgetId | null;
  /** In nano-USD; null: no limit. */
  readonly limit: bigint | null;
}

export interface NewJob {
  readonly requestId: RequestId;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly token: JobToken | null;
  readonly label: string | undefined;
  readonly source: string | undefined;
  /** Span of the request, if it is exported: the run links to it. */
  readonly trace?: TraceContext | undefined;
  /** As the caller wrote it, or `deploy_id:ID`. */
  readonly model: string;
  /** JSON, files as data URIs. */
  readonly body: Buffer;
  readonly url: string;
  /** Host and port of the URL. */
  readonly host: string;
  /** Scheme and host for links to this service. */
  readonly origin: string;
}

export interface WebhookJob extends NewJob {
  readonly createdAtMs: number;
  readonly isExpired: boolean;
  /** Number of this run, from 1. */
  readonly claims: number;
  readonly faults: number;
}

/** Result of a run. */
export interface JobAnswer {
  /** The complete response of the model's task, without `request_id` and `inference_status`. */
  readonly results: object;
  readonly runtimeMs: number;
  /** In USD. */
  readonly cost: number;
  /** Releases the memory of the results. */
  readonly letGo?: () => void;
}

/**
 * Runs a job through admission, routing, relay and settlement, its attempts numbered from `firstAttempt`. Returns undefined
 * when `signal` aborted it. Throws as complete() does, and UnusableAnswer for an unexpected engine response.
 */
export type RunJob = (
  job: WebhookJob,
  caller: Caller,
  firstAttempt: number,
  signal: AbortSignal,
) => Promise<JobAnswer | undefined>;

export const tokenOf = ({ via, models, spending }: Caller): JobToken | null =>
  via === "key" && spending.token === null
    ? null
    : {
        models: models && [...models],
        budget: spending.token?.budget ?? null,
        limit: spending.token?.limit ?? null,
      };

/** Returns the caller with the account's and key's current state, limited to what the token permitted. */
export function callerOf(now: Caller, token: JobToken | null): Caller {
  if (!token) return now;
  const { models, budget, limit } = token;
  return Object.freeze({
    ...now,
    isAdmin: false,
    via: "jwt",
    trustsUserHeaders: false,
    role: "inference",
    models: bothModels(now.models, models),
    spending: { ...now.spending, token: budget && { budget, limit } },
  });
}
