// Storage of budgets, leases and settlement, implemented in store/money/.
import type { BudgetId, LeaseId, ReplicaId, RequestId } from "../../proto/ids.ts";
import type { DeliveredCount } from "./delivered.ts";

export type { DeliveredCount, LostAttempt } from "./delivered.ts";
export type { Discount, DiscountStore } from "./discounts.ts";
export type { EndUserPlace, EndUserStore } from "./end-users.ts";
export type { BudgetFunds, CreditGrant, CreditOutcome, FundsStore } from "./funds.ts";
export type { FoundHold, HoldVerdict, Span } from "./gpu-hold.ts";
export type { GpuMinute } from "./gpu-minute.ts";
export type { GpuPrice, GpuTariff } from "./gpu-price.ts";
export type { GpuTimeStore, KnownMinute } from "./gpu-store.ts";
export type { GrantSizes } from "./grant-size.ts";
export type { InvoiceKeyStore, StoredInvoiceKey } from "./invoice-keys.ts";
export type { AlertSubject, LimitAlert, LimitAlertStore, RaisedAlert } from "./limit-alerts.ts";
export type * from "./money-overview.ts";
export type * from "./payment-store.ts";
export type {
  NewPrice,
  PriceKind,
  PriceRates,
  PriceStore,
  PriceVersion,
} from "./price-book.ts";
export type { ProviderStore, ProviderTerms } from "./providers.ts";
export type * from "./quarantine-store.ts";
export type { QuarantineProblem, SettledRecord } from "./record.ts";
export type { Rejection, RejectionStore } from "./rejections.ts";
export type { LabelStore, RequestLabel, RequestMarks } from "./request-labels.ts";
export type { LoggedRequest, RequestLogStore } from "./request-log.ts";
export type { BudgetScope } from "./scopes.ts";
export type { UsageDayStore, UsageDimension } from "./usage-days.ts";
export type { AccountPage, Corrected, NewSegment, SegmentItems, UsageSealStore } from "./usage-seals.ts";

import type { GrantSizes, Purchase } from "./grant-size.ts";
import type { SettledRecord } from "./record.ts";
import type { BudgetScope } from "./scopes.ts";

export interface BudgetRow {
  readonly budgetId: BudgetId;
  readonly limit: bigint | null;
  readonly spent: bigint;
  readonly leased: bigint;
}

export interface LeaseRow {
  readonly leaseId: LeaseId;
  readonly budgetId: BudgetId;
  readonly granted: bigint;
  readonly settled: bigint;
  readonly isOpen: boolean;
}

export interface Replica {
  readonly id: ReplicaId;
  /** From a database sequence: every lease write names it. */
  readonly epoch: bigint;
}

export interface GrantScope {
  readonly budget: BudgetScope;
  readonly leaseId: LeaseId;
  /** Unreserved amount of the slice in memory. */
  readonly free: bigint;
  /** The lease does not exist yet. */
  readonly isNew: boolean;
}

export type GrantOutcome =
  | { readonly kind: "granted"; readonly amounts: readonly bigint[] }
  /** Nothing was granted: the account is suspended. */
  | { readonly kind: "suspended"; readonly reason: string }
  /** Another replica closed these leases: start new ones. */
  | { readonly kind: "gone"; readonly leaseIds: readonly LeaseId[] };

export interface LeaseState {
  readonly leaseId: LeaseId;
  readonly granted: bigint;
  readonly settled: bigint;
}

export interface SyncOutcome {
  /** Leases that are still open and ours, now renewed. */
  readonly leases: readonly LeaseState[];
  /** Attempts with a durable record, by request. */
  readonly recorded: ReadonlyMap<RequestId, readonly number[]>;
}

export interface GiveBack {
  readonly leaseId: LeaseId;
  readonly budgetId: BudgetId;
  readonly amount: bigint;
  /** No hold reserves any of it: close it if nothing is left. */
  readonly mayClose: boolean;
}

export type ReturnReason = "idle" | "shutdown" | "dead";

export interface GivenBack {
  readonly leaseId: LeaseId;
  readonly given: bigint;
  readonly isClosed: boolean;
}

/** Every method of these stores throws DatabaseUnavailable; its effect is then unknown. */
export interface LeaseStore {
  registerReplica(id: ReplicaId): Promise<Replica>;
  /** Records that this replica is alive. */
  touchReplica(replica: Replica): Promise<void>;
  /**
   * Leases from every scope, all of one account, in one transaction; an unknown budget has nothing available. `size` decides
   * the amounts while the budget rows are locked; it must be pure, because the transaction may run again. A refusal is written
   * to the budget that lacks the money, and removed once all waiting requests fit.
   */
  grant(
    replica: Replica,
    scopes: readonly GrantScope[],
    ttlMs: number,
    size: (scopes: readonly Purchase[]) => GrantSizes,
  ): Promise<GrantOutcome>;
  /** Renews and reads in one statement, so that `settled` includes every record in `recorded`. */
  sync(
    replica: Replica,
    leaseIds: readonly LeaseId[],
    requests: readonly RequestId[],
    ttlMs: number,
  ): Promise<SyncOutcome>;
  /** Returns at most `granted - settled` of each; closed leases are missing in the result. */
  giveBack(replica: Replica, items: readonly GiveBack[], why: ReturnReason): Promise<readonly GivenBack[]>;
  /** Open leases of any replica that expired at least `graceMs` ago. */
  expiredLeases(graceMs: number): Promise<readonly LeaseId[]>;
  /**
   * Closes the leases that are still open and expired, and returns the rest of each. Writes an audit row for each in `voided`:
   * their hosts did not report for so long that their records are void.
   */
  closeExpired(
    leaseIds: readonly LeaseId[],
    graceMs: number,
    voided: ReadonlyMap<string, string>,
  ): Promise<readonly GivenBack[]>;
}

export interface NewFacts {
  readonly records: readonly SettledRecord[];
  readonly counts: readonly DeliveredCount[];
}

export type LossReason = "above_hold" | "above_limit" | "void_attempt" | "undelivered" | "orphan";

/** Cost of a record that no customer pays. */
export interface Loss {
  readonly reason: LossReason;
  readonly amount: bigint;
}

export interface Settled {
  /** Keys (record.ts) of the records that were new. */
  readonly fresh: ReadonlySet<string>;
  /** New records whose leases were closed before they arrived. */
  readonly late: number;
  readonly losses: readonly Loss[];
}

export interface SettlementStore {
  /** Stores what is new of `facts` and posts what follows from it, in one transaction. */
  settle(facts: NewFacts): Promise<Settled>;
  /** Delivered counts of these requests, by `recordKey`. */
  deliveredOf(requests: readonly RequestId[]): Promise<ReadonlyMap<string, DeliveredCount>>;
  /** Replicas that were seen in the last `withinMs`. */
  liveReplicas(replicas: readonly ReplicaId[], withinMs: number): Promise<ReadonlySet<ReplicaId>>;
  /** Unix ms before which retention has removed records; undefined: it has removed none. */
  expiredBeforeMs(): Promise<number | undefined>;
  /** Creates the coming months' partitions of usage and ledger. */
  ensureMoneyMonths(now: Date): Promise<void>;
  /** Sum of the absolute sums of unbalanced ledger transactions of the last minutes: anything but 0 is a defect. */
  recentImbalance(): Promise<bigint>;
}

/** A count without a record. */
export interface OpenCount extends DeliveredCount {
  readonly reportedAtMs: number;
  /**
   * Its host reported within the given time, and its agent ran the attempt, or started within that time and may still send what
   * its predecessor stored.
   */
  readonly mayStillReport: boolean;
}

export interface CountStore {
  /** Adds to stored counts the facts that bill them if their record never arrives. */
  keepLost(counts: readonly DeliveredCount[]): Promise<void>;
  /** Ends the wait of counts whose record is stored. */
  resolveRecorded(): Promise<void>;
  /** Counts older than `silentMs` that still wait, oldest first. */
  openCounts(silentMs: number, limit: number): Promise<readonly OpenCount[]>;
  /** Ends the wait with an audit row: nothing is billed. False when it had ended before. */
  release(count: DeliveredCount, why: string): Promise<boolean>;
}
