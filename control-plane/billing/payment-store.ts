// Storage of usage, invoices, charges, account status and limits, implemented in store/money/.

import type { AccountId, BudgetId, KeyId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import type { CreditGrant } from "./funds.ts";
import type { Invoice, InvoiceBuyer, InvoiceDraft, Owed } from "./invoices.ts";
import type { Month } from "./period.ts";
import type { UsageLine } from "./usage-line.ts";

export type { Invoice, InvoiceBuyer, InvoiceDraft, Owed } from "./invoices.ts";
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
  /** Sums of the ledger in these months by time of posting, inclusive. */
  monthLines(
    account: AccountId,
    first: Month,
    last: Month,
  ): Promise<readonly (UsageLine & { readonly month: Month })[]>;
  /** Invoices of these months, inclusive. */
  closedMonths(account: AccountId, first: Month, last: Month): Promise<ClosedMonths>;
  /** Includes revoked keys. */
  keysOf(
    account: AccountId,
  ): Promise<readonly { readonly key: KeyId; readonly name: string; readonly isLive: boolean }[]>;
  /** Metered seconds by deployment. */
  rent(account: AccountId, fromMs: number, toMs: number): Promise<ReadonlyMap<string, number>>;
}

export interface WholeInvoice extends Invoice {
  readonly lines: readonly UsageLine[];
  readonly buyer: InvoiceBuyer;
}

export interface InvoiceStore {
  /** First month with entries that is not closed; undefined when the ledger is empty. */
  nextOpenMonth(): Promise<Month | undefined>;
  /** Accounts whose sums of the month, which invoices are made of, differ from the ledger. Reads all its entries once. */
  differing(month: Month): Promise<ReadonlySet<AccountId>>;
  /** Accounts with entries in the month and no invoice of it, by id, after `after`. */
  unclosed(month: Month, after: AccountId, limit: number): Promise<readonly AccountId[]>;
  /**
   * In one transaction, reads the month's lines, stores the invoice that `draft` returns and moves its total from
   * customer_spent to platform_revenue. False when there was an invoice already, or nothing to invoice.
   */
  close(
    account: AccountId,
    month: Month,
    draft: (lines: readonly UsageLine[], dueDays: number) => InvoiceDraft | undefined,
  ): Promise<boolean>;
  /** Records that every invoice of the month exists. Idempotent. */
  markClosed(month: Month): Promise<void>;
  /** Newest first, months before `before`. */
  list(account: AccountId, limit: number, before: Month | undefined): Promise<readonly Invoice[]>;
  get(invoiceId: string): Promise<WholeInvoice | undefined>;
  owed(account: AccountId): Promise<Owed>;
}

/** A request that a budget refused, with the budget's present amount. */
export interface BudgetRefusal {
  /** Minimum that the request needed. */
  readonly floor: bigint;
  /** Neither spent nor reserved. */
  readonly available: bigint;
}

/** Books of one account, in nano-USD. */
export interface AccountMoney {
  /** Credits and credit line; null: none. */
  readonly limit: bigint | null;
  readonly creditLine: bigint;
  readonly spent: bigint;
  /** Sum of all invoices. */
  readonly invoiced: bigint;
  readonly monthlyLimit: bigint | null;
  /** 0 for an account without a monthly limit. */
  readonly spentThisMonth: bigint;
  /** Refusal by the account's funds. */
  readonly refusal: BudgetRefusal | null;
  /** Refusal by the monthly limit. */
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

/** What changed an account's funds, or will when it is paid. */
export interface Payment {
  /** Id of the charge, or reference of the credit. */
  readonly id: string;
  readonly kind: "topup" | "credit" | "correction";
  /** Nano-USD; negative only for a correction. */
  readonly amount: bigint;
  /** `requested`: the operator decides. `charging`: the payment provider has not reported the outcome yet. */
  readonly state: ChargeState;
  /** Why it failed; empty otherwise. */
  readonly why: string;
  readonly createdAtMs: number;
}

export interface OnFile {
  readonly hasPaymentMethod: boolean;
  readonly hasBillingAddress: boolean;
}

/**
 * `card`: it was refused; `nothing_on_file`: the account has none; `person`: a person rejected the request; `nobody`: the
 * payment was never made, never ended or was replaced, which has no effect on the account.
 */
export type FailureCause = "card" | "nothing_on_file" | "person" | "nobody";

/** Consecutive orders for which the provider made no payment or never ended it. */
export interface Unmade {
  readonly count: number;
  /** Since the last of them ended. */
  readonly agoMs: number;
}

export interface ChargeStore {
  /**
   * Undefined when the account has a top-up in flight, or the invoice a charge, or when `amountOf` returns 0 or less. The books
   * are read under the lock that every credit takes, so they include a charge paid in the meantime. `amountOf` must be pure.
   */
  begin(
    charge: Pick<Charge, "account" | "purpose" | "invoiceId"> & { readonly provider: string },
    amountOf: (books: Pick<Books, "money" | "owed"> & { readonly unmade: Unmade }) => bigint,
    claimMs: number,
  ): Promise<Charge | undefined>;
  /**
   * Begins a top-up that a person requested. One of another amount that still waits fails in the same transaction. Undefined:
   * one of this amount waits already, or one of another provider is in flight.
   */
  replaceTopup(
    charge: Pick<Charge, "account" | "amount"> & { readonly provider: string },
    claimMs: number,
  ): Promise<Charge | undefined>;
  find(id: string): Promise<Charge | undefined>;
  /** Claims charges in progress whose claim expired. */
  claimAbandoned(claimMs: number): Promise<readonly Charge[]>;
  /** False: it was not in that state. */
  move(id: string, from: ChargeState, to: ChargeState, reference: string): Promise<boolean>;
  /** As `move` to `failed`; also marks the account: a failed top-up stops, and `cause` may mark the card. */
  fail(id: string, from: ChargeState, why: string, cause: FailureCause, by?: Act): Promise<boolean>;
  /** Moves it from requested to done and credits it in one transaction, with audit. False: it was not requested any more. */
  fulfil(charge: Charge, grant: CreditGrant, by: Act): Promise<boolean>;
  requested(): Promise<readonly Charge[]>;
  /** Credits of the account and top-ups that are not credited, newest first. */
  payments(account: AccountId, limit: number): Promise<readonly Payment[]>;
  /** A new payment method also clears the failures of the previous one. */
  onFile(customer: string, found: OnFile): Promise<void>;
}

/** Reasons that follow from the books; operators set `admin`. */
export type BookedReason = "balance" | "limit-reached" | "overdue-invoices" | "bad-cc" | "payment-method";

export interface HeldReason {
  readonly reason: string;
  /** Set by Stoker. A reason that a person set is lifted only by a person. */
  readonly isOurs: boolean;
}

export interface AccountStatusStore {
  /** Accounts whose status may differ from their books, or whose funds are below their top-up threshold. */
  stale(monthStartMs: number): Promise<readonly AccountId[]>;
  /**
   * In one transaction under the account's lock, reads the books and applies what `decide` returns: marks paid invoices, sets
   * and lifts reasons, with audit and announcement. Returns the books; undefined: there is no such account.
   */
  update(
    account: AccountId,
    monthStartMs: number,
    decide: (books: Books) => StatusDecision,
  ): Promise<Books | undefined>;
}

export interface Books {
  readonly money: AccountMoney;
  readonly owed: Owed;
  readonly held: readonly HeldReason[];
}

export interface StatusDecision {
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

/** What the customer sets beside limits and top-ups. */
export interface BillingSettings {
  /** URL that receives alerts of limits; null: none. */
  readonly alertUrl: string | null;
  /** Alerts are mailed to the account's address, where the operator set a mail server. */
  readonly alertMail: boolean;
  /** Lines below the name on invoices. */
  readonly invoiceAddress: string;
}

export interface BillingSettingsStore {
  settings(account: AccountId): Promise<BillingSettings>;
  /** `host`: host and port of the URL. */
  setAlertTarget(
    account: AccountId,
    target: { readonly url: string; readonly host: string } | null,
    by: Act,
  ): Promise<void>;
  setAlertMail(account: AccountId, isOn: boolean, by: Act): Promise<void>;
  setInvoiceAddress(account: AccountId, address: string, by: Act): Promise<void>;
  /** Also clears a failed top-up, because the customer acted. */
  setTopup(account: AccountId, topup: TopupSettings, by: Act): Promise<void>;
  /** Undefined when there is no such account. */
  terms(account: AccountId): Promise<Terms | undefined>;
  /** The credit line is part of the account's limit. False when there is no such account. */
  setTerms(account: AccountId, terms: Terms, by: Act): Promise<boolean>;
  customer(account: AccountId): Promise<{ readonly customer: string | null; readonly email: string } | undefined>;
  setCustomer(account: AccountId, customer: string): Promise<void>;
  /** Clears earlier failures after a payment. */
  clearFailures(account: AccountId): Promise<void>;
  accountOf(customer: string): Promise<AccountId | undefined>;
  /** Records that an event of the provider was applied. Idempotent. */
  noteEvent(eventId: string, kind: string): Promise<void>;
  /** Nano-USD by request of this account; a label of the caller (`x-request-id`) means all its requests. */
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
  /** Live keys. `monthOf` names a key's budget of the month. */
  keyLimits(account: AccountId, monthOf: (key: KeyId) => BudgetId): Promise<readonly KeyLimit[]>;
  /** With audit and announcements. `month`: the budget of the present month. False: no such account, or live key of it. */
  setLimit(
    owner: { readonly account: AccountId; readonly key?: KeyId },
    limit: bigint | null,
    month: BudgetId,
    by: Act,
  ): Promise<boolean>;
}
