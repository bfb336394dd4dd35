// Contents of an invoice: sums of the ledger entries posted in its month, which are compared with the ledger before. Pure.
import type { AccountId } from "../../proto/ids.ts";
import type { Month } from "./period.ts";
import { totalOf, type UsageLine } from "./usage-line.ts";

const dayMs = 86_400_000;

export interface Invoice {
  readonly id: string;
  readonly account: AccountId;
  readonly month: Month;
  /** Nano-USD, as all amounts here. */
  readonly total: bigint;
  readonly createdAtMs: number;
  readonly dueAtMs: number;
  readonly paidAtMs: number | null;
}

/** Whom an invoice is addressed to. */
export interface InvoiceBuyer {
  /** Company, else the name of the person, else the name of the account. */
  readonly name: string;
  readonly email: string;
  /** Lines; may be empty. */
  readonly address: string;
}

export interface InvoiceDraft {
  readonly lines: readonly UsageLine[];
  readonly total: bigint;
  readonly dueAtMs: number;
}

export interface Owed {
  /** Sum of all credits; null: the account has no limit. */
  readonly credits: bigint | null;
  /** Sum of paid invoices. */
  readonly paid: bigint;
  /** Unpaid invoices, oldest first. */
  readonly open: readonly Invoice[];
}

/** A month whose entries cancel out has an invoice of 0; one without entries has none. */
export function draftInvoice(lines: readonly UsageLine[], dueDays: number, nowMs: number): InvoiceDraft | undefined {
  if (lines.length === 0) return undefined;
  return { lines, total: totalOf(lines), dueAtMs: nowMs + dueDays * dayMs };
}

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** Amounts due of the open invoices, in their order. An account without a limit owes nothing. `minDue`: see amountsDue. */
export function dueOf(owed: Owed, minDue: bigint): bigint[] {
  const totals = owed.open.map((invoice) => invoice.total);
  return owed.credits === null ? totals.map(() => 0n) : amountsDue(totals, owed.credits - owed.paid, minDue);
}

export interface InvoiceState {
  readonly status: "open" | "paid" | "overdue";
  readonly amountDue: bigint;
}

/**
 * Returns how much of each invoice is still due, oldest first: credits pay them in the order of their months. A negative total
 * (a month of corrections) reduces later ones. The provider cannot charge less than `minDue`: such an invoice counts as paid,
 * and the next one includes the amount. It also includes what earlier invoices left unpaid (credits below zero).
 */
export function amountsDue(totals: readonly bigint[], credits: bigint, minDue: bigint): bigint[] {
  let owed = -credits;
  let carried = credits < 0n ? -credits : 0n;
  return totals.map((total) => {
    owed += total;
    if (total <= 0n) return 0n;
    const due = min(owed, total + carried);
    carried = due > 0n && due < minDue ? due : 0n;
    return due > carried ? due : 0n;
  });
}

/** Once paid, an invoice stays paid. */
export function stateOf(
  invoice: Pick<Invoice, "dueAtMs" | "paidAtMs">,
  amountDue: bigint,
  nowMs: number,
): InvoiceState {
  if (invoice.paidAtMs !== null || amountDue === 0n) return { status: "paid", amountDue: 0n };
  return { status: nowMs > invoice.dueAtMs ? "overdue" : "open", amountDue };
}
