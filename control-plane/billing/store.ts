// What billing needs to be remembered, in its own words. store/lease-store.ts, settlement-store.ts and usage-store.ts keep it.
import type { AccountId, BudgetId, KeyId, LeaseId, ReplicaId, RequestId } from "../../proto/ids.ts";
import type { DeliveredCount } from "./delivered.ts";

export type { DeliveredCount, LostAttempt } from "./delivered.ts";
export type { FoundHold, HoldVerdict, Span } from "./gpu-hold.ts";
export type { GpuPrice, GpuTariff } from "./gpu-price.ts";
export type { GpuTimeStore, KnownMinute } from "./gpu-store.ts";
export type * from "./money-overview.ts";
export type * from "./payment-store.ts";
export type { BudgetRow, LeaseRow, Posting, Postings, UsageRow } from "./post.ts";
export type { SettledRecord } from "./record.ts";
export type { LoggedRequest, RequestLogStore } from "./request-log.ts";
export type { BudgetScope } from "./scopes.ts";
export type { UsageDayStore, UsageDimension } from "./usage-days.ts";

import type { Purchase } from "./grant-size.ts";
import type { FoundMoney, Postings } from "./post.ts";
import type { SettledRecord } from "./record.ts";
import type { BudgetScope } from "./scopes.ts";

export interface Replica {
  readonly id: ReplicaId;
  /** From a database sequence: every lease write names it. */
  readonly epoch: bigint;
}

export interface GrantScope {
  readonly budget: BudgetScope;
  readonly leaseId: LeaseId;
  /** What the slice in memory still has. */
  readonly free: bigint;
  /** The lease does not exist yet. */
  readonly isNew: boolean;
}

export type GrantOutcome =
  | { readonly kind: "granted"; readonly amounts: readonly bigint[] }
  /** Nothing was granted: the account may not spend. */
  | { readonly kind: "suspended"; readonly reason: string }
  /** These leases were closed by somebody else: start new ones. */
  | { readonly kind: "gone"; readonly leaseIds: readonly LeaseId[] };

export interface LeaseState {
  readonly leaseId: LeaseId;
  readonly granted: bigint;
  readonly settled: bigint;
}

export interface SyncOutcome {
  /** Those still open and ours, now renewed. */
  readonly leases: readonly LeaseState[];
  /** Highest attempt with a durable record, of the requests asked for that have one. */
  readonly recorded: ReadonlyMap<RequestId, number>;
}

export interface GiveBack {
  readonly leaseId: LeaseId;
  readonly budgetId: BudgetId;
  readonly amount: bigint;
  /** Nothing of it is held any more: close it if nothing is left. */
  readonly mayClose: boolean;
}

export type ReturnReason = "idle" | "shutdown" | "dead";

export interface GivenBack {
  readonly leaseId: LeaseId;
  readonly given: bigint;
  readonly isClosed: boolean;
}

/** Every method of these stores throws an Error with code `store_away` when PostgreSQL cannot be asked: then what it did is unknown. */
export interface LeaseStore {
  registerReplica(id: ReplicaId): Promise<Replica>;
  /** Says that this replica lives. */
  touchReplica(replica: Replica): Promise<void>;
  /**
   * Leases from every scope, all of one account, in one transaction; an unknown budget has no room. `size` decides the
   * amounts while the budget rows are locked; it must be pure, as the transaction may run again.
   */
  grant(
    replica: Replica,
    scopes: readonly GrantScope[],
    ttlMs: number,
    size: (scopes: readonly Purchase[]) => readonly bigint[],
  ): Promise<GrantOutcome>;
  /** Renews and reads in one statement: a record in `recorded` is already inside `settled`. */
  sync(
    replica: Replica,
    leaseIds: readonly LeaseId[],
    requests: readonly RequestId[],
    ttlMs: number,
  ): Promise<SyncOutcome>;
  /** Never more than `granted - settled`; leases that are gone are missing from the answer. */
  giveBack(replica: Replica, items: readonly GiveBack[], why: ReturnReason): Promise<readonly GivenBack[]>;
  /** Open leases of any replica that ran out at least `graceMs` ago. */
  expiredLeases(graceMs: number): Promise<readonly LeaseId[]>;
  /**
   * Closes those of them that are still open and still expired, and returns what was left. Each that is in `voided` leaves an
   * audit row: the hosts there were silent for so long that what they hold is void.
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

/** What settlement asks of billing while the rows are locked. Both are pure: a transaction may run again. */
export interface MoneyRules {
  /** The months that a record counts in, beside its account and the budgets its leases lie on. */
  readonly months: (owner: { readonly account: AccountId; readonly key: KeyId }, admittedAtMs: number) => BudgetScope[];
  readonly post: (found: FoundMoney) => Postings;
}

export interface Settled {
  /** Keys (record.ts) of the records that were new. */
  readonly fresh: ReadonlySet<string>;
  readonly postings: Postings | undefined;
}

export interface SettlementStore {
  /** One transaction: keeps what is new of `facts`, locks the money it touches, and writes what `rules` answer about it. */
  settle(facts: NewFacts, rules: MoneyRules): Promise<Settled>;
  /** Delivered counts of these requests, by `recordKey`. */
  deliveredOf(requests: readonly RequestId[]): Promise<ReadonlyMap<string, DeliveredCount>>;
  /** Those of the replicas that were seen in the last `withinMs`. */
  liveReplicas(replicas: readonly ReplicaId[], withinMs: number): Promise<ReadonlySet<ReplicaId>>;
  /** Months of usage and ledger, made ahead. */
  ensureMoneyMonths(now: Date): Promise<void>;
  /** Sum of the absolute sums of unbalanced ledger transactions of the last minutes: anything but 0 is a defect. */
  recentImbalance(): Promise<bigint>;
}

/** A count without a record. */
export interface OpenCount extends DeliveredCount {
  readonly reportedAtMs: number;
  /**
   * Its host was heard within the asked time, and its agent is the one that ran the attempt, or came after it within that time
   * and may still be sending what the one before kept.
   */
  readonly mayStillTell: boolean;
}

export interface CountStore {
  /** Adds to counts that stand what they are billed by if their record never comes. */
  keepLost(counts: readonly DeliveredCount[]): Promise<void>;
  /** Ends the wait of the counts whose record stands. */
  resolveRecorded(): Promise<void>;
  /** Counts older than `silentMs` that still wait, the oldest first. */
  openCounts(silentMs: number, limit: number): Promise<readonly OpenCount[]>;
  /** Ends the wait with an audit row: nothing is billed. False when it had ended before. */
  release(count: DeliveredCount, why: string): Promise<boolean>;
}

/** A usage record that cannot become money, as it came. */
export interface QuarantinedRecord {
  readonly requestId: string;
  readonly attempt: number;
  readonly nodeEpoch: string;
  readonly why: string;
  /** JSON. */
  readonly record: string;
}

export interface QuarantineStore {
  /** The same record again changes nothing. */
  quarantine(record: QuarantinedRecord): Promise<void>;
}

/** What a caller said of a request that nothing goes by. */
export interface RequestMarks {
  /** `user` of the body. */
  readonly endUser?: string | undefined;
  /** `prompt_cache_key` of the body. */
  readonly cacheKey?: string | undefined;
  /** Header `x-service-source`. */
  readonly source?: string | undefined;
}

export interface RequestLabel extends RequestMarks {
  readonly requestId: RequestId;
  readonly label: string | undefined;
  readonly account: AccountId;
}

export interface LabelStore {
  saveLabels(labels: readonly RequestLabel[]): Promise<void>;
}

export interface CreditGrant {
  readonly account: AccountId;
  /** Nano-USD; negative only for a correction. */
  readonly amount: bigint;
  readonly kind: "credit" | "topup" | "correction";
  /** For people. */
  readonly note: string;
  /** Unique in the installation: the same grant again changes nothing. */
  readonly reference: string;
  /** A correction may take more than is left: nothing is admitted until it fits again. */
  readonly mayGoBelowZero?: boolean;
}

export interface BudgetFunds {
  /** Null: no limit. */
  readonly limit: bigint | null;
  readonly spent: bigint;
  readonly leased: bigint;
}

export type CreditOutcome =
  | { readonly kind: "granted"; readonly before: BudgetFunds; readonly funds: BudgetFunds }
  /** The same grant stands already. */
  | { readonly kind: "repeated"; readonly funds: BudgetFunds }
  | { readonly kind: "unknown_account" }
  | { readonly kind: "reference_taken" }
  | { readonly kind: "below_zero"; readonly funds: BudgetFunds };

export interface FundsStore {
  /** With `by` an audit entry in the same transaction. Announces `limit`. */
  grantCredit(grant: CreditGrant, by?: { readonly actor: string; readonly ip: string }): Promise<CreditOutcome>;
}

/** Who sets a price or a discount, for the audit log. */
export interface PriceSetter {
  readonly actor: string;
  readonly ip: string;
  readonly note?: string;
}

export type PriceKind = "model" | "gpu" | "container";

/** Nano-USD per million tokens, characters, milliseconds of audio, images; `hour`: nano-USD per hour of a GPU or container. */
export interface PriceRates {
  readonly input: bigint;
  readonly cachedInput: bigint;
  readonly output: bigint;
  readonly characters: bigint;
  readonly audio: bigint;
  readonly images: bigint;
  /** Of an image of 1024 x 1024 at that rate: others cost in proportion. 0: every image costs the same. */
  readonly imageSteps: bigint;
  readonly hour: bigint;
}

export interface NewPrice {
  readonly kind: PriceKind;
  readonly subject: string;
  readonly rates: PriceRates;
  readonly effectiveFromMs: number;
}

export interface PriceVersion extends NewPrice {
  readonly version: bigint;
  readonly setAtMs: number;
}

export interface PriceStore {
  /** Announces `price`. */
  setPrice(price: NewPrice, by?: PriceSetter): Promise<PriceVersion>;
  /** By kind and subject, the latest effective first. */
  prices(filter: { readonly kind?: PriceKind; readonly subject?: string }): Promise<readonly PriceVersion[]>;
}

export interface Discount {
  readonly id: string;
  /** Shown on bills. */
  readonly name: string;
  readonly text: string;
  /** 1 to 10000: hundredths of a per cent. */
  readonly basisPoints: number;
  /** Null: any. */
  readonly account: AccountId | null;
  readonly model: string | null;
  readonly surface: string | null;
  readonly effectiveFromMs: number;
  /** Exclusive; null: open. */
  readonly effectiveToMs: number | null;
}

/** Changes announce `price`: whoever knows prices reads discounts anew too. */
export interface DiscountStore {
  /** False when there is no such account. */
  addDiscount(discount: Discount, by?: PriceSetter): Promise<boolean>;
  /** False when there is none or it has ended. */
  endDiscount(id: string, by?: PriceSetter): Promise<boolean>;
  /** All that ever were, the newest first. */
  discounts(): Promise<readonly Discount[]>;
}
