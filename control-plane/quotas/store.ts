// Storage of quotas. Implemented by store/quota-store.ts. Every method a customer can reach takes the account.

import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import type { GpuCounts, GpuRecord, GpuUse } from "./gpu-limits.ts";
import type { OwnRateLimits } from "./rate-limits.ts";

export type { GpuCounts, GpuUse };

/** Stored limits of one account. */
export interface LimitRecord extends GpuRecord {
  readonly suspendReason: string | null;
  readonly rate: OwnRateLimits;
}

/** Requested limits; a missing part stays unchanged. */
export interface RequestedLimits {
  readonly gpu: { readonly max: GpuCounts; readonly min: GpuCounts };
  readonly rate: { readonly concurrent: number; readonly tokensPerMinute: number | null };
}
export type LimitKind = keyof RequestedLimits;

export interface LimitRequest<Kind extends LimitKind = LimitKind> {
  readonly id: string;
  readonly account: AccountId;
  readonly kind: Kind;
  readonly requested: RequestedLimits[Kind];
  readonly reason: string;
  /** Incremented by every amendment. */
  readonly revision: number;
  readonly createdAtMs: number;
  /** Null while it is open. */
  readonly decision: "approved" | "rejected" | "withdrawn" | null;
  readonly resolvedAtMs: number | null;
  /** Text of the operator. */
  readonly resolutionReason: string | null;
}

export type AnyLimitRequest = LimitRequest<"gpu"> | LimitRequest<"rate">;

export interface Filing<Kind extends LimitKind> {
  readonly requested: RequestedLimits[Kind];
  readonly reason: string;
}

/** A request in an operator's list, with its account. */
export interface ListedRequest<Kind extends LimitKind = LimitKind> extends LimitRequest<Kind> {
  readonly email: string;
  readonly displayName: string;
}

export interface LimitChange {
  /** Null resets to the installation's default; undefined leaves it unchanged. The same applies below. */
  readonly concurrent?: number | null;
  readonly tokensPerMinute?: number | null;
  readonly weight?: number | null;
  /** By GPU type; missing types stay unchanged. */
  readonly max?: Readonly<Record<GpuType, number | null>>;
  readonly min?: Readonly<Record<GpuType, number | null>>;
}

export interface QuotaStore {
  /** Returns all accounts that have their own rate limits or weight. */
  ownRateLimits(): Promise<ReadonlyMap<AccountId, OwnRateLimits>>;
  /** Undefined when the account does not exist. */
  record(account: AccountId): Promise<LimitRecord | undefined>;
  openRequest<Kind extends LimitKind>(account: AccountId, kind: Kind): Promise<LimitRequest<Kind> | undefined>;
  /** Returns the newest decision of an operator; withdrawals do not count. */
  lastDecided<Kind extends LimitKind>(account: AccountId, kind: Kind): Promise<LimitRequest<Kind> | undefined>;
  /** Requests of one account of both kinds, newest first. */
  requestsOf(account: AccountId, limit: number): Promise<readonly AnyLimitRequest[]>;
  /**
   * Opens a request with `id`, or amends the open one, which keeps its id. `decide` receives the current record under the
   * account's lock; when it throws, nothing is written. Undefined when the account does not exist.
   */
  file<Kind extends LimitKind>(
    account: AccountId,
    kind: Kind,
    id: string,
    decide: (record: LimitRecord, open: LimitRequest<Kind> | undefined) => Filing<Kind>,
  ): Promise<LimitRequest<Kind> | undefined>;
  withdraw(account: AccountId, kind: LimitKind, id: string): Promise<"done" | "decided" | "unknown">;

  /** Open requests first, then the others; newest first in each part. */
  list<Kind extends LimitKind>(kind: Kind, limit: number): Promise<readonly ListedRequest<Kind>[]>;
  /**
   * Decides an open request and, when approved, writes its limits, in one transaction with the audit row and announcement.
   * `moved`: it was amended since `ifRevision`.
   */
  resolve(
    kind: LimitKind,
    id: string,
    decision: "approved" | "rejected",
    ifRevision: number | undefined,
    act: Act,
  ): Promise<"done" | "decided" | "moved" | "unknown">;
  /** Undefined when the account does not exist; when `check` throws, nothing is written. */
  setLimits(
    account: AccountId,
    change: LimitChange,
    check: (next: LimitRecord) => void,
    act: Act,
  ): Promise<LimitRecord | undefined>;
}
