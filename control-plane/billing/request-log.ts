// What is kept of each request after it ended: figures and why it ended, never what was asked or answered.
import type { AccountId, KeyId, RequestId } from "../../proto/ids.ts";
import { ServiceError } from "../service-error.ts";

/** One attempt; the gateway makes another where the first got no answer. */
export interface LoggedRequest {
  readonly id: RequestId;
  readonly attempt: number;
  /** A later attempt counts in its place. */
  readonly isVoided: boolean;
  readonly account: AccountId;
  readonly key: KeyId | "";
  readonly model: string;
  readonly deployId: string;
  readonly instanceId: string;
  /** An EndReason of proto/usage.ts. */
  readonly endReason: string;
  readonly admittedAtMs: number;
  readonly endedAtMs: number;
  /** Until a place was free at the model. */
  readonly queueMs: number;
  /** From the request's arrival at the host, waiting included; 0: there was no answer. */
  readonly firstByteMs: number;
  readonly totalMs: number;
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  /** Nano-USD that were charged. */
  readonly charge: bigint;
}

export interface RequestFilter {
  /** Unix ms of settlement, inclusive. */
  readonly fromMs: number;
  /** Exclusive. */
  readonly toMs: number;
  readonly model: string | undefined;
  readonly onlyFailed: boolean;
}

/** Where a page ends: as the store wrote it, to the microsecond. */
export interface LogPosition {
  readonly settledAt: string;
  readonly id: RequestId;
}

export interface RequestLogStore {
  /** Of the account's requests that count, newest first. Throws ReportTooLong. */
  page(
    account: AccountId,
    filter: RequestFilter,
    after: LogPosition | undefined,
    limit: number,
  ): Promise<readonly LoggedRequest[]>;
  position(account: AccountId, id: RequestId): Promise<LogPosition | undefined>;
  /** Every attempt, the first one first; by the client's own id too where an account is given. */
  attempts(id: string, account: AccountId | undefined): Promise<readonly LoggedRequest[]>;
}

export interface RequestLog {
  /** `after`: the id that the page before ended with. Throws RequestUnknown, ReportTooLong. */
  list(
    account: AccountId,
    filter: RequestFilter,
    after: string | undefined,
    limit: number,
  ): Promise<{ readonly requests: readonly LoggedRequest[]; readonly hasMore: boolean }>;
  /** Without an account: anybody's. Throws RequestUnknown. */
  find(id: string, account: AccountId | undefined): Promise<readonly LoggedRequest[]>;
}

export class RequestUnknown extends ServiceError {
  readonly code = "request_not_found";
  constructor() {
    super(
      "No request of this id is recorded. One that has ended stands here within seconds; one that was refused before it reached a model leaves no record.",
    );
  }
}

export function createRequestLog({ store }: { readonly store: RequestLogStore }): RequestLog {
  return {
    async list(account, filter, after, limit) {
      const position = after === undefined ? undefined : await store.position(account, after as RequestId);
      if (after !== undefined && position === undefined) throw new RequestUnknown();
      const found = await store.page(account, filter, position, limit + 1);
      return { requests: found.slice(0, limit), hasMore: found.length > limit };
    },
    async find(id, account) {
      const attempts = await store.attempts(id, account);
      if (attempts.length === 0) throw new RequestUnknown();
      return attempts;
    },
  };
}
