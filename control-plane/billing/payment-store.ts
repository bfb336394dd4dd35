// What the pages of money need to be remembered. store/usage-store.ts and store/invoice-store.ts keep it.
import type { AccountId, BudgetId, KeyId } from "../../proto/ids.ts";
import type { CreditGrant } from "./funds.ts";
import type { Invoice, InvoiceDraft, Owed } from "./invoices.ts";
import type { Month } from "./period.ts";
import type { UsageLine } from "./usage-line.ts";

export type { Invoice, InvoiceDraft, Owed } from "./invoices.ts";
export type { LineDiscount, PricingType, UsageLine } from "./usage-line.ts";

export interface UsageScope {
  readonly account: AccountId;
  /** Absent: all keys of the account. */
  readonly key?: KeyId;
}

export interface ClosedMonths {
  readonly accountCreatedAtMs: number;
  /** Every month up to here has all its invoices; undefined: none has. */
  readonly through: Month | undefined;
  readonly invoices: readonly {
    readonly invoiceId: string;
    readonly month: Month;
    readonly lines: readonly UsageLine[];
  }[];
}

export interface UsageStore {
  /** What the ledger says of these months by time of posting, inclusive. */
  monthLines(
    account: AccountId,
    first: Month,
    last: Month,
  ): Promise<readonly (UsageLine & { readonly month: Month })[]>;
  /** The invoices of these months, inclusive. */
  closedMonths(account: AccountId, first: Month, last: Month): Promise<ClosedMonths>;
  /** Revoked ones too. */
  keysOf(
    account: AccountId,
  ): Promise<readonly { readonly key: KeyId; readonly name: string; readonly isLive: boolean }[]>;
  /** Metered seconds by deployment. */
  rent(account: AccountId, fromMs: number, toMs: number): Promise<ReadonlyMap<string, number>>;
}

export interface InvoiceStore {
  /** The first month that is not closed yet and has entries, or undefined when the ledger is empty. */
  nextOpenMonth(): Promise<Month | undefined>;
  /** Accounts with entries in the month and no invoice of it, by id, after `after`. */
  unclosed(month: Month, after: AccountId, limit: number): Promise<readonly AccountId[]>;
  /**
   * One transaction: reads the month's lines, keeps what `draft` makes of them and moves the total from customer_spent to
   * platform_revenue. False when there was an invoice already, or nothing to invoice.
   */
  close(
    account: AccountId,
    month: Month,
    draft: (lines: readonly UsageLine[], dueDays: number) => InvoiceDraft | undefined,
  ): Promise<boolean>;
  /** Every invoice of the month is made. Idempotent. */
  markClosed(month: Month): Promise<void>;
  /** Newest first, from below `before`. */
  list(account: AccountId, limit: number, before: Month | undefined): Promise<readonly Invoice[]>;
  get(invoiceId: string): Promise<(Invoice & { readonly lines: readonly UsageLine[] }) | undefined>;
  owed(account: AccountId): Promise<Owed>;
}

/** A request that a budget refused, with what the budget has now. */
export interface BudgetRefusal {
  /** Least that the request needed. */
  readonly floor: bigint;
  /** Neither spent nor set aside for other requests. */
  readonly available: bigint;
}

/** What the books say about one account, in nano-USD. */
export interface AccountMoney {
  /** Credits and credit line; null: none. */
  readonly limit: bigint | null;
  readonly creditLine: bigint;
  readonly spent: bigint;
  /** Sum of all invoices. */
  readonly invoiced: bigint;
  readonly monthlyLimit: bigint | null;
  /** 0 for an account without a monthly limit: nobody asks. */
  readonly spentThisMonth: bigint;
  /** Of the account's funds. */
  readonly refusal: BudgetRefusal | null;
  /** Of the monthly limit. */
  readonly monthRefusal: BudgetRefusal | null;
  readonly suspendReason: string | null;
  readonly hasEmail: boolean;
  readonly needsPaymentMethod: boolean;
  readonly hasPaymentMethod: boolean;
  readonly hasBillingAddress: boolean;
  readonly cardFailed: boolean;
  readonly topup: {
    readonly isOn: boolean;
    readonly amount: bigint;
    readonly threshold: bigint;
    readonly hasFailed: boolean;
  };
  readonly checkedAtMs: number | null;
}

export interface BillingStore {
  /** Undefined when there is no such account. */
  accountMoney(account: AccountId, monthStartMs: number): Promise<AccountMoney | undefined>;
}

/** Who acts, for the audit log. */
export interface Doer {
  readonly actor: string;
  readonly ip: string;
  readonly note: string;
}

export type ChargeState = "charging" | "requested" | "done" | "failed";

export interface Charge {
  readonly id: string;
  readonly account: AccountId;
  /** The provider's id of the customer. */
  readonly customer: string | null;
  readonly purpose: "topup" | "invoice";
  readonly invoiceId: string | null;
  /** Nano-USD, whole cents. */
  readonly amount: bigint;
  readonly state: ChargeState;
  /** The provider's id of the payment, once it is known: while charging, of one that is pending. */
  readonly paymentId: string | null;
  readonly createdAtMs: number;
}

export interface OnFile {
  readonly hasPaymentMethod: boolean;
  readonly hasBillingAddress: boolean;
}

/**
 * `card`: it was refused; `nothing_on_file`: the account has none; `person`: somebody said no, which says nothing of a card;
 * `nobody`: it was never made, never ended or replaced by another, and leaves no mark on the account.
 */
export type FailureCause = "card" | "nothing_on_file" | "person" | "nobody";

/** Orders in a row that came to nothing and nobody's fault: the provider never made a payment, or never ended it. */
export interface Unmade {
  readonly count: number;
  /** Since the last of them ended. */
  readonly agoMs: number;
}

export interface ChargeStore {
  /**
   * Undefined when the account has a top-up in flight, or the invoice a charge, or when `amountOf` answers 0 or less. It reads
   * the books under the lock that every credit takes: a charge that was paid meanwhile is in them. It must be pure.
   */
  begin(
    charge: Pick<Charge, "account" | "purpose" | "invoiceId"> & { readonly provider: string },
    amountOf: (books: Pick<Books, "money" | "owed"> & { readonly unmade: Unmade }) => bigint,
    claimMs: number,
  ): Promise<Charge | undefined>;
  /**
   * The same for a top-up that a person asked for, in place of one of another amount that still waits: that one fails, in
   * the same transaction. Undefined: one of this amount waits already, or another provider's is in flight.
   */
  beginAnew(
    charge: Pick<Charge, "account" | "amount"> & { readonly provider: string },
    claimMs: number,
  ): Promise<Charge | undefined>;
  find(id: string): Promise<Charge | undefined>;
  /** Those being charged that no replica claims any more, now claimed by the caller. */
  claimAbandoned(claimMs: number): Promise<readonly Charge[]>;
  /** False: it was not in that state. */
  move(id: string, from: ChargeState, to: ChargeState, reference: string): Promise<boolean>;
  /** The same to `failed`, with the account's marks: a top-up stops, and what `cause` says of the card. */
  fail(id: string, from: ChargeState, why: string, cause: FailureCause, by?: Doer): Promise<boolean>;
  /** Requested to done and its credit, in one transaction, with audit. False: it was not requested any more. */
  fulfil(charge: Charge, grant: CreditGrant, by: Doer): Promise<boolean>;
  requested(): Promise<readonly Charge[]>;
  /** A payment method that was not there before also clears the failures of the one before. */
  onFile(customer: string, found: OnFile): Promise<void>;
}

/** Those that follow from the books; `admin` is the operator's own. */
export type BookedReason = "balance" | "limit-reached" | "overdue-invoices" | "bad-cc" | "payment-method";

export interface HeldReason {
  readonly reason: string;
  /** Given by Stoker, not by a person: what a person decided is theirs to lift. */
  readonly isOurs: boolean;
}

export interface StandingStore {
  /** Accounts whose standing may not be what their books say, or whose funds fell below their top-up threshold. */
  toJudge(monthStartMs: number): Promise<readonly AccountId[]>;
  /**
   * One transaction under the account's lock: reads the books, marks the invoices that `decide` finds paid, gives and lifts
   * what it answers, with audit and announcement. Answers what it read; undefined: there is no such account.
   */
  restand(
    account: AccountId,
    monthStartMs: number,
    decide: (books: Books) => StandingDecision,
  ): Promise<Books | undefined>;
}

export interface Books {
  readonly money: AccountMoney;
  readonly owed: Owed;
  readonly held: readonly HeldReason[];
}

export interface StandingDecision {
  readonly paidInvoices: readonly string[];
  readonly suspend: readonly BookedReason[];
  readonly lift: readonly BookedReason[];
}

export interface TopupSettings {
  readonly isOn: boolean;
  readonly amount: bigint;
  readonly threshold: bigint;
}

export interface Terms {
  readonly creditLine: bigint;
  readonly dueDays: number;
  readonly needsPaymentMethod: boolean;
}

export interface BillingSettingsStore {
  /** Clears a top-up that failed: the customer looked at it. */
  setTopup(account: AccountId, topup: TopupSettings, by: Doer): Promise<void>;
  /** Undefined when there is no such account. */
  terms(account: AccountId): Promise<Terms | undefined>;
  /** The credit line is part of the account's limit. False when there is no such account. */
  setTerms(account: AccountId, terms: Terms, by: Doer): Promise<boolean>;
  customer(account: AccountId): Promise<{ readonly customer: string | null; readonly email: string } | undefined>;
  setCustomer(account: AccountId, customer: string): Promise<void>;
  /** A payment came: what failed before counts no more. */
  clearFailures(account: AccountId): Promise<void>;
  accountOf(customer: string): Promise<AccountId | undefined>;
  /** Keeps that an event of the provider was taken in. Idempotent. */
  noteEvent(eventId: string, kind: string): Promise<void>;
  /** Nano-USD by request, of the account's own; a label of the caller (`x-request-id`) stands for all its requests. */
  requestCosts(account: AccountId, ids: readonly string[]): Promise<ReadonlyMap<string, bigint>>;
}

export interface KeyLimit {
  readonly key: KeyId;
  readonly name: string;
  /** Nano-USD per UTC month; null: none; 0 blocks. */
  readonly limit: bigint | null;
  /** Nano-USD charged to it this month. */
  readonly spent: bigint;
}

export interface LimitStore {
  accountLimit(account: AccountId): Promise<bigint | null>;
  /** The live keys. `monthOf` names a key's budget of the month. */
  keyLimits(account: AccountId, monthOf: (key: KeyId) => BudgetId): Promise<readonly KeyLimit[]>;
  /** With audit and announcements. `month`: the budget of the present month. False: no such account, or live key of it. */
  setLimit(
    owner: { readonly account: AccountId; readonly key?: KeyId },
    limit: bigint | null,
    month: BudgetId,
    by: Doer,
  ): Promise<boolean>;
}
