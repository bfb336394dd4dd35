// Books of one account, read by pages without a lock and by updates of its status under the account's lock.
import { type Selectable, sql } from "kysely";
import { type AccountId, accountBudget, type BudgetId } from "../../../proto/ids.ts";
import type { AccountMoney, BudgetRefusal, Owed } from "../../billing/store.ts";
import type { Database, Db } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";

export async function accountMoney(
  db: Db,
  account: AccountId,
  monthStartMs: number,
): Promise<AccountMoney | undefined> {
  const row = await db
    .selectFrom("account")
    .innerJoin("budget", "budget.accountId", "account.accountId")
    .leftJoin("accountBilling as b", "b.accountId", "account.accountId")
    .select([
      "lim",
      "spent",
      "leased",
      "refusedFloor",
      "monthlyLimit",
      "suspendReason",
      "email",
      "b.creditLine",
      "b.needsPaymentMethod",
    ])
    .select(["b.hasPaymentMethod", "b.hasBillingAddress", "b.cardFailed", "b.checkedAt"])
    .select(["b.topupEnabled", "b.topupAmount", "b.topupThreshold", "b.topupFailed"])
    .select(
      sql<bigint>`(select coalesce(sum(total), 0)::bigint from invoice where account_id = ${account})`.as("invoiced"),
    )
    .where("account.accountId", "=", account)
    .where("budgetId", "=", accountBudget(account))
    .executeTakeFirst();
  if (!row) return undefined;
  const month = row.monthlyLimit === null ? undefined : await monthBudget(db, account, monthStartMs);
  return {
    limit: row.lim,
    creditLine: row.creditLine ?? 0n,
    spent: row.spent,
    invoiced: row.invoiced,
    monthlyLimit: row.monthlyLimit,
    spentThisMonth: month?.spent ?? 0n,
    refusal: refusalOf(row),
    monthRefusal: month ? refusalOf(month) : null,
    suspendReason: row.suspendReason,
    hasEmail: row.email !== "",
    needsPaymentMethod: row.needsPaymentMethod ?? false,
    hasPaymentMethod: row.hasPaymentMethod ?? false,
    hasBillingAddress: row.hasBillingAddress ?? false,
    cardFailed: row.cardFailed ?? false,
    topup: {
      isOn: row.topupEnabled ?? false,
      amount: row.topupAmount ?? 0n,
      threshold: row.topupThreshold ?? 0n,
      hasFailed: row.topupFailed ?? false,
    },
    checkedAtMs: row.checkedAt?.getTime() ?? null,
  };
}

/** Returns the month's budget. Usage counts by time of admission, so late usage counts in the month that reserved it. */
function monthBudget(db: Db, account: string, monthStartMs: number): Promise<BudgetColumns | undefined> {
  const month = new Date(monthStartMs).toISOString().slice(0, 7).replace("-", "");
  return db
    .selectFrom("budget")
    .select(["lim", "spent", "leased", "refusedFloor"])
    .where("budgetId", "=", `account-month/${account}/${month}` as BudgetId)
    .executeTakeFirst();
}

type BudgetColumns = Pick<Selectable<Database["budget"]>, "lim" | "spent" | "leased" | "refusedFloor">;

const refusalOf = ({ lim, spent, leased, refusedFloor: floor }: BudgetColumns): BudgetRefusal | null =>
  lim === null || floor === null ? null : { floor, available: lim - spent - leased };

export async function owedOf(db: Db, account: AccountId): Promise<Owed> {
  const { rows } = await sql<{ credits: bigint | null; paid: bigint }>`
    select b.lim - coalesce(a.credit_line, 0) as credits,
      (select coalesce(sum(total), 0)::bigint from invoice
        where account_id = ${account} and paid_at is not null) as paid
    from budget b left join account_billing a using (account_id)
    where b.budget_id = ${accountBudget(account)}`.execute(db);
  const open = await db
    .selectFrom("invoice")
    .select(invoiceColumns)
    .where("accountId", "=", account)
    .where("paidAt", "is", null)
    .orderBy("month")
    .execute();
  return { credits: rows[0]?.credits ?? null, paid: rows[0]?.paid ?? 0n, open };
}

/** Columns of an Invoice. */
export const invoiceColumns = [
  ...(["invoiceId as id", "accountId as account", "month", "total"] as const),
  epochMs("createdAt").as("createdAtMs"),
  epochMs("dueAt").as("dueAtMs"),
  epochMs<null>("paidAt").as("paidAtMs"),
] as const;
