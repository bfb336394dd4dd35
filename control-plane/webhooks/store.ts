// What webhooks need kept. Implemented by store/webhook-job-store.ts, webhook-delivery-store.ts and webhook-secret-store.ts,
// whose every method throws an Error with code `store_away` when PostgreSQL cannot be asked.
import type { AccountId, RequestId } from "../../proto/ids.ts";
import type { LoadRoom } from "./account-load.ts";
import type { NewJob, WebhookJob } from "./job.ts";

export type { LoadRoom } from "./account-load.ts";
export type { NewJob, WebhookJob } from "./job.ts";

/** Bounds of one look for work. */
export interface ClaimWish extends LoadRoom {
  readonly claim: string;
  readonly limit: number;
  readonly lockMs: number;
}

export interface ClaimedJob extends WebhookJob {
  readonly claim: string;
}

/** How a request ended, and the call that says so. */
export interface JobEnd {
  readonly requestId: RequestId;
  readonly claim: string;
  readonly error: { readonly code: string; readonly message: string } | undefined;
  readonly webhookId: string;
  readonly body: Buffer;
  readonly results: Buffer | undefined;
}

/** Of one account's requests that have not ended. */
export interface JobsLimit {
  readonly count: number;
  readonly bytes: number;
}

export interface WebhookJobStore {
  /**
   * "full": what waits or runs of the account has reached `most`, which the last one added may pass in bytes. "unheard": calls
   * that its receivers have not taken fill the room for its answers.
   */
  addJob(job: NewJob, lifeMs: number, most: JobsLimit): Promise<"added" | "gone" | "full" | "unheard">;
  /** Those that are due, or whose run died, the oldest first. A run that died counts as a fault. */
  claimJobs(wish: ClaimWish): Promise<readonly ClaimedJob[]>;
  /** Says that these runs live; answers which of them still may write. */
  keepJobs(claims: readonly string[], lockMs: number): Promise<ReadonlySet<string>>;
  /** The end of a request and the call that tells it, in one transaction. False when another run took over. */
  endJob(end: JobEnd): Promise<boolean>;
  /** Back into the queue. Nothing when another run took over. */
  requeueJob(requestId: RequestId, claim: string, afterMs: number, isFault: boolean): Promise<void>;
}

export interface ClaimedDelivery {
  readonly webhookId: string;
  readonly claim: string;
  readonly account: AccountId;
  readonly url: string;
  readonly host: string;
  readonly body: Buffer;
  /** Made before this one, ever and of its schedule. */
  readonly attempts: number;
  readonly tries: number;
}

export interface SilentHost {
  readonly account: string;
  readonly host: string;
  readonly room: number;
}

export interface DeliveryWish extends ClaimWish {
  readonly mostOfHost: number;
  /** How many more this process may call at once, where that is not `mostOfHost`. */
  readonly roomOfHost: ReadonlyMap<string, number>;
  /** The same for one account's calls of one host, where it answered none of the last. */
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
  /** Until the next attempt; undefined: there is none. */
  readonly nextMs: number | undefined;
}

export type DeliveryState = "pending" | "delivered" | "exhausted";

export interface DeliveryRecord {
  readonly webhookId: string;
  readonly requestId: RequestId;
  readonly url: string;
  readonly state: DeliveryState;
  /** What the request came to; undefined: it succeeded. */
  readonly error: { readonly code: string; readonly message: string } | undefined;
  readonly attempts: number;
  readonly lastStatus: number | undefined;
  readonly lastOutcome: string | undefined;
  readonly createdAtMs: number;
  /** While it is pending. */
  readonly nextAttemptAtMs: number | undefined;
  readonly finishedAtMs: number | undefined;
}

export interface AttemptView {
  readonly number: number;
  readonly atMs: number;
  readonly ms: number;
  readonly outcome: string;
  readonly status: number | undefined;
  readonly answer: string;
}

export interface WebhookDeliveryStore {
  claimDeliveries(wish: DeliveryWish): Promise<readonly ClaimedDelivery[]>;
  /** False when another control plane took over. */
  noteAttempt(record: AttemptRecord): Promise<boolean>;
  /** Newest first, those with an id below `before`. */
  deliveries(account: AccountId, before: string | undefined, limit: number): Promise<readonly DeliveryRecord[]>;
  delivery(
    account: AccountId,
    webhookId: string,
  ): Promise<{ readonly delivery: DeliveryRecord; readonly attempts: readonly AttemptView[] } | undefined>;
  /** Begins the schedule anew; audited. */
  replay(account: AccountId, webhookId: string, ip: string): Promise<"replayed" | "pending" | "unknown" | "empty">;
  /** By the signed link. */
  results(requestId: RequestId): Promise<Buffer | undefined>;
  /** Since when the call that waits longest has been due, in ms; 0: none is. */
  oldestDueMs(): Promise<number>;
  /** Of answers, over all accounts. */
  keptBytes(): Promise<number>;
}

export interface SecretRow {
  readonly sealed: Buffer;
  readonly madeAtMs: number;
  readonly previousSealed: Buffer | null;
  readonly previousUntilMs: number | null;
}

export interface WebhookSecretStore {
  /** The account's own, made by `fresh` where it has none. Undefined when the account is gone. */
  secretOf(account: AccountId, fresh: () => Promise<Buffer>): Promise<SecretRow | undefined>;
  /** The one that signed so far goes on signing for `overlapMs`; audited. Undefined when the account is gone. */
  rotateSecret(account: AccountId, sealed: Buffer, overlapMs: number, ip: string): Promise<SecretRow | undefined>;
}
