// What quotas need kept. Implemented by store/quota-store.ts. Every method a customer can reach takes the account.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId } from "../../proto/ids.ts";
import type { GpuCounts, GpuRecord, GpuUse } from "./gpu-limits.ts";
import type { OwnRateLimits } from "./rate-limits.ts";

export type { GpuCounts, GpuUse };

/** What stands in one account's records. */
export interface LimitRecord extends GpuRecord {
  readonly suspendReason: string | null;
  readonly rate: OwnRateLimits;
}

/** What a request asks for; a part that is not named stays as it is. */
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
  /** Rises with every amendment. */
  readonly revision: number;
  readonly createdAtMs: number;
  /** Null while it is open. */
  readonly decision: "approved" | "rejected" | "withdrawn" | null;
  readonly resolvedAtMs: number | null;
  /** The operator's words. */
  readonly resolutionReason: string | null;
}

export interface Filing<Kind extends LimitKind> {
  readonly requested: RequestedLimits[Kind];
  readonly reason: string;
}

/** An operator's request as listed, with whose it is. */
export interface ListedRequest<Kind extends LimitKind = LimitKind> extends LimitRequest<Kind> {
  readonly email: string;
  readonly displayName: string;
}

/** Who decides, from where, and with which words: for the audit log. */
export interface Act {
  readonly by: string;
  readonly ip: string;
  readonly note: string;
}

export interface LimitChange {
  /** Null: the installation's default from now on; undefined: as it is. The same below. */
  readonly concurrent?: number | null;
  readonly tokensPerMinute?: number | null;
  /** By GPU type; types that are not named stay. */
  readonly max?: Readonly<Partial<Record<GpuType, number | null>>>;
  readonly min?: Readonly<Partial<Record<GpuType, number | null>>>;
}

export interface QuotaStore {
  /** Of all accounts that have a rate limit of their own. */
  ownRateLimits(): Promise<ReadonlyMap<AccountId, OwnRateLimits>>;
  /** Undefined when there is no such account. */
  record(account: AccountId): Promise<LimitRecord | undefined>;
  openRequest<Kind extends LimitKind>(account: AccountId, kind: Kind): Promise<LimitRequest<Kind> | undefined>;
  /** The newest decision of an operator; withdrawals are none. */
  lastDecided<Kind extends LimitKind>(account: AccountId, kind: Kind): Promise<LimitRequest<Kind> | undefined>;
  /**
   * Opens a request named `id`, or amends the open one, whose id stays. `decide` sees what stands, under the account's lock,
   * and what it throws comes out with nothing written. Undefined when there is no such account.
   */
  file<Kind extends LimitKind>(
    account: AccountId,
    kind: Kind,
    id: string,
    decide: (record: LimitRecord, open: LimitRequest<Kind> | undefined) => Filing<Kind>,
  ): Promise<LimitRequest<Kind> | undefined>;
  withdraw(account: AccountId, kind: LimitKind, id: string): Promise<"done" | "decided" | "unknown">;

  /** Open ones first, each part newest first. */
  list<Kind extends LimitKind>(kind: Kind, limit: number): Promise<readonly ListedRequest<Kind>[]>;
  /**
   * Decides an open request and, when approved, writes its limits: one transaction with its audit row and announcement.
   * `moved`: it was amended since `ifRevision`.
   */
  resolve(
    kind: LimitKind,
    id: string,
    decision: "approved" | "rejected",
    ifRevision: number | undefined,
    act: Act,
  ): Promise<"done" | "decided" | "moved" | "unknown">;
  /** Undefined when there is no such account; what `check` throws comes out with nothing written. */
  setLimits(
    account: AccountId,
    change: LimitChange,
    check: (next: LimitRecord) => void,
    act: Act,
  ): Promise<LimitRecord | undefined>;
}
