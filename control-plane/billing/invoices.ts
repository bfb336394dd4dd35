// What an invoice says: a pure function of the ledger entries posted in its month. Nothing here looks at a clock or a store.
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

export interface InvoiceDraft {
  readonly lines: readonly UsageLine[];
  readonly total: bigint;
  readonly dueAtMs: number;
}

export interface Owed {
  /** Everything ever credited; null: the account has no limit. */
  readonly credits: bigint | null;
  /** Sum of the invoices that are paid. */
  readonly paid: bigint;
  /** The others, oldest first. */
  readonly open: readonly Invoice[];
}

/** The month as it stood in the ledger. A month whose entries cancel out is an invoice of 0; one without entries has none. */
export function draftInvoice(lines: readonly UsageLine[], dueDays: number, nowMs: number): InvoiceDraft | undefined {
  if (lines.length === 0) return undefined;
  return { lines, total: totalOf(lines), dueAtMs: nowMs + dueDays * dayMs };
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** Amounts due of the open invoices, in their order. An account without a limit owes nothing. `leastDue`: as amountsDue. */
export function dueOf(owed: Owed, leastDue: bigint): bigint[] {
  const totals = owed.open.map((invoice) => invoice.total);
  return owed.credits === null ? totals.map(() => 0n) : amountsDue(totals, owed.credits - owed.paid, leastDue);
}

export interface InvoiceState {
  readonly status: "open" | "paid" | "overdue";
  readonly amountDue: bigint;
}

/**
 * Credits pay invoices in the order of their months: how much of each is still due, oldest first. A negative total (a month
 * of corrections) lowers what the later ones ask for. What is less than `leastDue` cannot be taken by the provider: that
 * invoice counts as paid, and the next one asks for it too, as it does for what earlier ones left (credits below zero).
 */
export function amountsDue(totals: readonly bigint[], credits: bigint, leastDue: bigint): bigint[] {
  let owed = -credits;
  let carried = credits < 0n ? -credits : 0n;
  return totals.map((total) => {
    owed += total;
    if (total <= 0n) return 0n;
    const due = least(owed, total + carried);
    carried = due > 0n && due < leastDue ? due : 0n;
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
