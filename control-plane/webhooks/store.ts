// Storage of webhooks. Implemented by store/webhook-job-store.ts, webhook-delivery-store.ts and webhook-secret-store.ts,
// whose every method throws DatabaseUnavailable.

import type { AccountId, RequestId } from "../../proto/ids.ts";
import type { Actor } from "../act.ts";
import type { LoadCapacity } from "./account-load.ts";
import type { NewJob, WebhookJob } from "./job.ts";

export type { LoadCapacity } from "./account-load.ts";
export type { NewJob, WebhookJob } from "./job.ts";

/** Limits of one claim. */
export interface ClaimParams extends LoadCapacity {
  readonly claim: string;
  readonly limit: number;
  readonly lockMs: number;
}

export interface ClaimedJob extends WebhookJob {
  readonly claim: string;
}

/** The end of a request, and the call that reports it. */
export interface JobEnd {
  readonly requestId: RequestId;
  readonly claim: string;
  readonly error: { readonly code: string; readonly message: string } | undefined;
  readonly webhookId: string;
  readonly body: Buffer;
  readonly results: Buffer | undefined;
}

/** Limit of one account's unfinished requests. */
export interface JobsLimit {
  readonly count: number;
  readonly bytes: number;
}

export interface WebhookJobStore {
  /**
   * "full": the account's unfinished requests have reached `limit`; the last one added may exceed it in bytes. "unheard":
   * undelivered calls use all the space of the account's results.
   */
  addJob(job: NewJob, lifeMs: number, limit: JobsLimit): Promise<"added" | "gone" | "full" | "unheard">;
  /** Claims due requests and those whose run died, oldest first. A run that died counts as a fault. */
  claimJobs(request: ClaimParams): Promise<readonly ClaimedJob[]>;
  /** Renews these claims; returns those that are still valid. */
  keepJobs(claims: readonly string[], lockMs: number): Promise<ReadonlySet<string>>;
  /**
   * Stores the end of a request and the call that reports it in one transaction. Returns false when another run took over.
   */
  endJob(end: JobEnd): Promise<boolean>;
  /** Returns the request to the queue. No effect when another run took over. */
  requeueJob(requestId: RequestId, claim: string, afterMs: number, isFault: boolean): Promise<void>;
}

export interface ClaimedDelivery {
  readonly webhookId: string;
  readonly claim: string;
  readonly account: AccountId;
  readonly url: string;
  readonly host: string;
  readonly body: Buffer;
  /** Earlier attempts, in total and in the current schedule. */
  readonly attempts: number;
  readonly tries: number;
}

export interface SilentHost {
  readonly account: string;
  readonly host: string;
  readonly capacity: number;
}

export interface DeliveryClaimParams extends ClaimParams {
  readonly maxPerHost: number;
  /** Remaining calls to a host by this process, where it differs from `maxPerHost`. */
  readonly capacityOfHost: ReadonlyMap<string, number>;
  /** The same for one account's calls to one host whose last calls all failed. */
  readonly silent: readonly SilentHost[];
}

export type Outcome = "ok" | "3xx" | "4xx" | "5xx" | "timeout" | "blocked" | "unreachable";

export interface AttemptRecord {
  readonly webhookId: string;
  readonly claim: string;
  readonly atMs: number;
  readonly ms: number;
  readonly outcome: Outcome;
  readonly status: number | undefined;
  readonly answer: string;
  /** Delay until the next attempt; undefined: no more attempts. */
  readonly nextMs: number | undefined;
}

export type DeliveryState = "pending" | "delivered" | "exhausted";

export interface DeliveryRecord {
  readonly webhookId: string;
  /** For an event, the id of the delivery. */
  readonly requestId: RequestId;
  /** Such as `limit.alert`; null: the result of a request. */
  readonly event: string | null;
  readonly url: string;
  readonly state: DeliveryState;
  /** Error of the request; null: it succeeded. */
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly attempts: number;
  readonly lastStatus: number | null;
  readonly lastOutcome: string | null;
  readonly createdAtMs: number;
  /** Set while the delivery is pending. */
  readonly nextAttemptAtMs: number | null;
  readonly finishedAtMs: number | null;
}

export interface AttemptView {
  readonly number: number;
  readonly atMs: number;
  readonly ms: number;
  readonly outcome: string;
  readonly status: number | null;
  readonly answer: string;
}

export interface WebhookDeliveryStore {
  claimDeliveries(request: DeliveryClaimParams): Promise<readonly ClaimedDelivery[]>;
  /** Returns false when another control plane took over. */
  noteAttempt(record: AttemptRecord): Promise<boolean>;
  /** Newest first, with an id below `before`. */
  deliveries(account: AccountId, before: string | undefined, limit: number): Promise<readonly DeliveryRecord[]>;
  delivery(
    account: AccountId,
    webhookId: string,
  ): Promise<{ readonly delivery: DeliveryRecord; readonly attempts: readonly AttemptView[] } | undefined>;
  /** Restarts the schedule; audited. */
  replay(actor: Actor, webhookId: string): Promise<"replayed" | "pending" | "unknown" | "empty">;
  /** Called with a verified link. */
  results(requestId: RequestId): Promise<Buffer | undefined>;
  /** Age in ms of the oldest due call; 0: none is due. */
  oldestDueMs(): Promise<number>;
  /** Bytes of results kept for all accounts. */
  keptBytes(): Promise<number>;
}

export interface SecretRow {
  readonly sealed: Buffer;
  readonly madeAtMs: number;
  readonly previousSealed: Buffer | null;
  readonly previousUntilMs: number | null;
}

export interface WebhookSecretStore {
  /** Returns the account's secret; `fresh` creates the first one. Undefined when the account is gone. */
  secretOf(account: AccountId, fresh: () => Promise<Buffer>): Promise<SecretRow | undefined>;
  /** The previous secret keeps signing for `overlapMs`; audited. Undefined when the account is gone. */
  rotateSecret(actor: Actor, sealed: Buffer, overlapMs: number): Promise<SecretRow | undefined>;
}
