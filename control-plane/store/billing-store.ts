import { type Kysely, sql } from "kysely";
import type { AccountMoney, BillingStore } from "../billing/store.ts";
import { asking } from "./database.ts";
import type { Database } from "./schema.ts";

export function createBillingStore(db: Kysely<Database>): BillingStore {
  return {
    accountMoney: (account, monthStartMs) =>
      asking(async (): Promise<AccountMoney | undefined> => {
        const row = await db
          .selectFrom("account")
          .innerJoin("budget", "budget.account_id", "account.account_id")
          .leftJoin("account_billing as b", "b.account_id", "account.account_id")
          .select([
            "lim",
            "spent",
            "monthly_limit",
            "suspend_reason",
            "email",
            "b.credit_line",
            "b.needs_payment_method",
          ])
          .select(["b.has_payment_method", "b.has_billing_address", "b.card_failed", "b.checked_at"])
          .select(["b.topup_enabled", "b.topup_amount", "b.topup_threshold", "b.topup_failed"])
          .select(
            sql<bigint>`(select coalesce(sum(total), 0)::bigint from invoice where account_id = ${account})`.as(
              "invoiced",
            ),
          )
          .where("account.account_id", "=", account)
          .where("budget_id", "=", `account/${account}`)
          .executeTakeFirst();
        if (!row) return undefined;
        return {
          limit: row.lim,
          creditLine: row.credit_line ?? 0n,
          spent: row.spent,
          invoiced: row.invoiced,
          monthlyLimit: row.monthly_limit,
          spentThisMonth: row.monthly_limit === null ? 0n : await spentSince(db, account, monthStartMs),
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
      }),
  };
}

/** Captured and corrected by time of posting: one month's partition. */
async function spentSince(db: Kysely<Database>, account: string, fromMs: number): Promise<bigint> {
  const { rows } = await sql<{ sum: bigint }>`
    select coalesce(sum(amount), 0)::bigint as sum from ledger_entry
    where account_id = ${account} and book = 'customer_spent' and kind <> 'invoice'
      and posted_at >= ${new Date(fromMs).toISOString()}::timestamptz`.execute(db);
  return rows[0]?.sum ?? 0n;
}
