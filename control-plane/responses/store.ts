// Storage of responses. Implemented by store/work/response-store.ts, whose every method throws DatabaseUnavailable.
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { LoadCapacity } from "../webhooks/store.ts";

export type { LoadCapacity } from "../webhooks/store.ts";

export type StoredStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

export interface NewResponse {
  readonly id: string;
  readonly account: AccountId;
  readonly key: KeyId;
  /** Response that this one continues. */
  readonly previous: string | undefined;
  readonly status: StoredStatus;
  /** Runs in the background. */
  readonly background: boolean;
  /** Sealed under the account's data key. */
  readonly sealed: Buffer;
}

export interface ResponseRow {
  readonly id: string;
  readonly status: StoredStatus;
  readonly background: boolean;
  readonly sealed: Buffer;
}

/** A response without its content. */
export interface ResponseSize {
  readonly id: string;
  readonly status: StoredStatus;
  readonly bytes: number;
}

/** A response that runs in the background. */
export interface ClaimedResponse {
  readonly id: string;
  readonly claim: string;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly sealed: Buffer;
  readonly createdAtMs: number;
  readonly isExpired: boolean;
  /** Number of this run, from 1. */
  readonly claims: number;
  readonly faults: number;
}

export interface ResponseLimits {
  /** Total of an account's stored responses. */
  readonly bytes: number;
  /** Unfinished responses of an account. */
  readonly unfinished: number;
}

export interface ResponseStore {
  /** "full", "busy": the account would pass a limit; only a background response is refused by the second. */
  add(response: NewResponse, lifeMs: number, limits: ResponseLimits): Promise<"added" | "gone" | "full" | "busy">;
  /** Bytes of an account's stored responses. */
  storedBytes(account: AccountId): Promise<number>;
  find(account: AccountId, ids: readonly string[]): Promise<readonly ResponseRow[]>;
  sizes(account: AccountId, ids: readonly string[]): Promise<readonly ResponseSize[]>;
  /** The response and those before it, oldest first; at most `max` + 1. Undefined: one of them does not exist. */
  chain(account: AccountId, id: string, max: number): Promise<readonly ResponseSize[] | undefined>;
  /** Returns false when there is no such response. */
  remove(account: AccountId, id: string): Promise<boolean>;
  /** Ends an unfinished response; no effect on another one. */
  cancel(account: AccountId, id: string): Promise<void>;
  claim(
    request: LoadCapacity & { readonly claim: string; readonly limit: number; readonly lockMs: number },
  ): Promise<readonly ClaimedResponse[]>;
  /** Renews these claims; returns those that are still valid. */
  keep(claims: readonly string[], lockMs: number): Promise<ReadonlySet<string>>;
  /**
   * `maxBytes`: of the account's stored responses, this one included; undefined: not checked. "overtaken": another run took over,
   * or the response was cancelled or deleted.
   */
  end(
    response: Pick<ClaimedResponse, "id" | "claim" | "account">,
    status: StoredStatus,
    sealed: Buffer,
    maxBytes?: number,
  ): Promise<"ended" | "overtaken" | "full">;
  /** Returns the response to the queue. No effect when another run took over. */
  requeue(id: string, claim: string, afterMs: number, isFault: boolean): Promise<void>;
}
