// The books of one account, read by a page as they are and by a judgement under the account's lock.
import { type Kysely, sql } from "kysely";
import { type AccountId, accountBudget } from "../../proto/ids.ts";
import type { AccountMoney, Invoice, Owed } from "../billing/store.ts";
import type { Database } from "./schema.ts";

export async function accountMoney(
  db: Kysely<Database>,
  account: AccountId,
  monthStartMs: number,
): Promise<AccountMoney | undefined> {
  const row = await db
    .selectFrom("account")
    .innerJoin("budget", "budget.account_id", "account.account_id")
    .leftJoin("account_billing as b", "b.account_id", "account.account_id")
    .select(["lim", "spent", "monthly_limit", "suspend_reason", "email", "b.credit_line", "b.needs_payment_method"])
    .select(["b.has_payment_method", "b.has_billing_address", "b.card_failed", "b.checked_at"])
    .select(["b.topup_enabled", "b.topup_amount", "b.topup_threshold", "b.topup_failed"])
    .select(
      sql<bigint>`(select coalesce(sum(total), 0)::bigint from invoice where account_id = ${account})`.as("invoiced"),
    )
    .where("account.account_id", "=", account)
    .where("budget_id", "=", accountBudget(account))
    .executeTakeFirst();
  if (!row) return undefined;
  return {
    limit: row.lim,
    creditLine: row.credit_line ?? 0n,
    spent: row.spent,
    invoiced: row.invoiced,
    monthlyLimit: row.monthly_limit,
    spentThisMonth: row.monthly_limit === null ? 0n : await spentInMonth(db, account, monthStartMs),
    suspendReason: row.suspend_reason,
    hasEmail: row.email !== "",
    needsPaymentMethod: row.needs_payment_method ?? false,
    hasPaymentMethod: row.has_payment_method ?? false,
    hasBillingAddress: row.has_billing_address ?? false,
    cardFailed: row.card_failed ?? false,
    topup: {
      isOn: row.topup_enabled ?? false,
      amount: row.topup_amount ?? 0n,
      threshold: row.topup_threshold ?? 0n,
      hasFailed: row.topup_failed ?? false,
    },
    checkedAtMs: row.checked_at?.getTime() ?? null,
  };
}

/** What the limit of the month was charged: by time of admission, so that what comes late counts where it was held. */
async function spentInMonth(db: Kysely<Database>, account: string, monthStartMs: number): Promise<bigint> {
  const month = new Date(monthStartMs).toISOString().slice(0, 7).replace("-", "");
  const budget = await db
    .selectFrom("budget")
    .select("spent")
    .where("budget_id", "=", `account-month/${account}/${month}`)
    .executeTakeFirst();
  return budget?.spent ?? 0n;
}

export async function owedOf(db: Kysely<Database>, account: AccountId): Promise<Owed> {
  const { rows } = await sql<{ credits: bigint | null; paid: bigint }>`
    select b.lim - coalesce(a.credit_line, 0) as credits,
      (select coalesce(sum(total), 0)::bigint from invoice
        where account_id = ${account} and paid_at is not null) as paid
    from budget b left join account_billing a using (account_id)
    where b.budget_id = ${accountBudget(account)}`.execute(db);
  const open = await db
    .selectFrom("invoice")
    .selectAll()
    .where("account_id", "=", account)
    .where("paid_at", "is", null)
    .orderBy("month")
    .execute();
  return { credits: rows[0]?.credits ?? null, paid: rows[0]?.paid ?? 0n, open: open.map(invoiceOf) };
}

export function invoiceOf(row: {
  invoice_id: string;
  account_id: string;
  month: number;
  total: bigint;
  created_at: Date;
  due_at: Date;
  paid_at: Date | null;
}): Invoice {
  return {
    id: row.invoice_id,
    account: row.account_id as AccountId,
    month: row.month,
    total: row.total,
    createdAtMs: row.created_at.getTime(),
    dueAtMs: row.due_at.getTime(),
    paidAtMs: row.paid_at?.getTime() ?? null,
  };
}
