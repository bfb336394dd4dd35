// A native request that is answered at a webhook: accepted, run later by any control plane, its end told by a call.
import type { AccountId, BudgetId, KeyId, RequestId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";

/** What a scoped token allowed when the request was accepted. Its end is none of it: it was valid then. */
export interface JobToken {
  readonly models: readonly string[] | null;
  readonly budget: BudgetId | null;
  /** Nano-USD; null: none. */
  readonly limit: bigint | null;
}

export interface NewJob {
  readonly requestId: RequestId;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly token: JobToken | null;
  readonly label: string | undefined;
  readonly source: string | undefined;
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

/** What came of a run. */
export interface JobAnswer {
  /** The whole answer of the model's task, less `request_id` and `inference_status`. */
  readonly results: object;
  readonly runtimeMs: number;
  /** USD. */
  readonly cost: number;
  /** The results are not needed in memory any more. */
  readonly letGo?: () => void;
}

/**
 * Runs a job through admission, routing, relay and settlement, its attempts numbered from `firstAttempt`. Undefined when
 * `signal` ended it. Throws what complete() throws, and UpstreamBroken where an engine answered something else.
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

/** The caller as the account and its key stand now, within what the token allowed. */
export function callerOf(now: Caller, token: JobToken | null): Caller {
  if (!token) return now;
  const { models, budget, limit } = token;
  return Object.freeze({
    ...now,
    isAdmin: false,
    via: "jwt",
    models: models && new Set(models),
    expiresAtMs: null,
    spending: { ...now.spending, token: budget && { budget, limit } },
  });
}
