// Log of ended requests: figures and end reasons, never prompts or responses.
import type { AccountId, KeyId, RequestId } from "../../proto/ids.ts";
import type { ServiceTier } from "../../proto/service-tier.ts";
import type { EndReason } from "../../proto/usage.ts";
import type { ShownUsage, UsageValues } from "../../proto/usage-record.ts";
import { notFound } from "../service-error.ts";
import type { Rejection, RejectionFilter, RejectionStore } from "./rejections.ts";

/** One attempt; the gateway starts another when one got no response. */
export interface LoggedRequest
  extends Pick<
    UsageValues,
    ShownUsage | "attempt" | "isVoided" | "model" | "deployId" | "instanceId" | "admittedAtMs" | "endedAtMs" | "charge"
  > {
  readonly id: RequestId;
  readonly account: AccountId;
  readonly key: KeyId | "";
  /** An EndReason of proto/usage.ts. */
  readonly endReason: string;
  /** Tier that served the request. */
  readonly tier: ServiceTier;
  /** End user that the request named. Null: none, or erased. */
  readonly user: string | null;
}

export interface RequestFilter {
  /** Unix ms of settlement, inclusive. */
  readonly fromMs: number;
  /** Exclusive. */
  readonly toMs: number;
  readonly model?: string | undefined;
  /** Id of the key. */
  readonly key?: string | undefined;
  /** Name of the end user. */
  readonly user?: string | undefined;
  readonly endReason?: EndReason | undefined;
  /** HTTP status, both included. */
  readonly status?: { readonly min: number; readonly max: number } | undefined;
  readonly onlyFailed?: boolean;
}

/** Position of the last request of a page, to the microsecond. */
export interface LogPosition {
  readonly settledAt: string;
  readonly id: RequestId;
}

export interface RequestLogStore extends Pick<RejectionStore, "rejections" | "rejection"> {
  /** The account's requests without voided attempts, newest first. Throws ReportTooLong. */
  page(
    account: AccountId,
    filter: RequestFilter,
    after: LogPosition | undefined,
    limit: number,
  ): Promise<readonly LoggedRequest[]>;
  /** Failed requests of all accounts that were settled since, newest first. Throws ReportTooLong. */
  failures(fromMs: number, limit: number): Promise<readonly LoggedRequest[]>;
  position(account: AccountId, id: RequestId): Promise<LogPosition | undefined>;
  /** All attempts in order; with an account, also by the client's own id. */
  attempts(id: string, account: AccountId | undefined): Promise<readonly LoggedRequest[]>;
}

export interface RequestLog {
  /** `after`: last id of the previous page. Throws requestUnknown, ReportTooLong. */
  list(
    account: AccountId,
    filter: RequestFilter,
    after: string | undefined,
    limit: number,
  ): Promise<{ readonly requests: readonly LoggedRequest[]; readonly hasMore: boolean }>;
  /** Failed requests of all accounts that were settled since, newest first, for an operator. Throws ReportTooLong. */
  failures(
    caller: AccountId,
    fromMs: number,
    limit: number,
  ): Promise<{ readonly requests: readonly LoggedRequest[]; readonly hasMore: boolean }>;
  /** Requests that no host recorded, newest first; without an account, of all, for an operator. `after`: last id of the previous page. Throws requestUnknown, ReportTooLong. */
  rejections(
    caller: AccountId,
    account: AccountId | undefined,
    filter: RejectionFilter,
    after: string | undefined,
    limit: number,
  ): Promise<{ readonly rejections: readonly Rejection[]; readonly hasMore: boolean }>;
  /** Attempts, or if no host recorded the request, how it was rejected. Without an account: of any account. Throws requestUnknown. */
  find(
    id: string,
    account: AccountId | undefined,
  ): Promise<{ readonly attempts: readonly LoggedRequest[]; readonly rejection: Rejection | undefined }>;
}

export const requestUnknown = () =>
  notFound(
    "request_not_found",
    "Request not found. A finished request is listed within seconds. Of many rejected requests in a minute, only some are kept.",
  );

export function createRequestLog({ store }: { readonly store: RequestLogStore }): RequestLog {
  return {
    async list(account, filter, after, limit) {
      const position = after === undefined ? undefined : await store.position(account, after as RequestId);
      if (after !== undefined && position === undefined) throw requestUnknown();
      const found = await store.page(account, filter, position, limit + 1);
      return { requests: found.slice(0, limit), hasMore: found.length > limit };
    },
    async failures(_caller, fromMs, limit) {
      const found = await store.failures(fromMs, limit + 1);
      return { requests: found.slice(0, limit), hasMore: found.length > limit };
    },
    async rejections(_caller, account, filter, after, limit) {
      const found = await store.rejections(account, filter, after, limit + 1);
      if (!found) throw requestUnknown();
      return { rejections: found.slice(0, limit), hasMore: found.length > limit };
    },
    async find(id, account) {
      const attempts = await store.attempts(id, account);
      const rejection = attempts.length > 0 ? undefined : await store.rejection(id, account);
      if (attempts.length === 0 && !rejection) throw requestUnknown();
      return { attempts, rejection };
    },
  };
}
