// What the pages of money need to be remembered. store/usage-store.ts and store/invoice-store.ts keep it.
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { Invoice, InvoiceDraft } from "./invoices.ts";
import type { Month } from "./period.ts";
import type { UsageLine } from "./usage-line.ts";

export type { Invoice, InvoiceDraft } from "./invoices.ts";
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
  /** Summed from the ledger by time of posting, [fromMs, toMs). */
  ledgerLines(
    account: AccountId,
    fromMs: number,
    toMs: number,
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
  /** Some accounts with entries in the month and no invoice of it. */
  unclosed(month: Month, limit: number): Promise<readonly AccountId[]>;
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
  markPaid(account: AccountId, invoiceIds: readonly string[]): Promise<void>;
}

export interface Owed {
  /** Everything ever credited; null: the account has no limit. */
  readonly credits: bigint | null;
  /** Sum of the invoices that are paid. */
  readonly paid: bigint;
  /** The others, oldest first. */
  readonly open: readonly Invoice[];
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
