import { type Insertable, type Kysely, sql, type Transaction } from "kysely";
import { type AccountId, accountBudget } from "../../proto/ids.ts";
import type { BillingSettingsStore, BillingStore } from "../billing/store.ts";
import { accountMoney } from "./account-money.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { movingMoney } from "./budget-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

export function createBillingStore(db: Kysely<Database>): BillingStore & BillingSettingsStore {
  return asked<BillingStore & BillingSettingsStore>({
    accountMoney: (account, monthStartMs) => accountMoney(db, account, monthStartMs),

    setTopup: (account, { isOn, amount, threshold }, by) =>
      inTransaction(db, async (trx) => {
        const { before } = await keep(trx, account, {
          topup_enabled: isOn,
          topup_amount: amount,
          topup_threshold: threshold,
          topup_failed: false,
        });
        await writeAudit(trx, {
          ...by,
          action: "topup.change",
          subject: account,
          account,
          before: {
            enabled: before?.topup_enabled ?? false,
            amount: String(before?.topup_amount ?? 0n),
            threshold: String(before?.topup_threshold ?? 0n),
          },
          after: { enabled: isOn, amount: String(amount), threshold: String(threshold) },
        });
      }),

    async terms(account) {
      const row = await db
        .selectFrom("account")
        .leftJoin("account_billing as b", "b.account_id", "account.account_id")
        .select(["credit_line", "due_days", "needs_payment_method"])
        .where("account.account_id", "=", account)
        .where("deleted_at", "is", null)
        .executeTakeFirst();
      return (
        row && {
          creditLine: row.credit_line ?? 0n,
          dueDays: row.due_days ?? 14,
          needsPaymentMethod: row.needs_payment_method ?? false,
        }
      );
    },

    setTerms: (account, { creditLine, dueDays, needsPaymentMethod }, by) =>
      movingMoney(db, async (trx) => {
        const budgetId = accountBudget(account);
        const { rows } = await sql`select from budget where budget_id = ${budgetId} for update`.execute(trx);
        if (rows.length === 0) return false;
        const { before } = await keep(trx, account, {
          credit_line: creditLine,
          due_days: dueDays,
          needs_payment_method: needsPaymentMethod,
        });
        const more = creditLine - (before?.credit_line ?? 0n);
        await trx
          .updateTable("budget")
          .set({ lim: sql<bigint | null>`lim + ${more.toString()}::bigint` })
          .where("budget_id", "=", budgetId)
          .execute();
        await writeAudit(trx, {
          ...by,
          action: "terms.change",
          subject: account,
          account,
          before: { credit_line: String(before?.credit_line ?? 0n), due_days: before?.due_days ?? 14 },
          after: { credit_line: String(creditLine), due_days: dueDays, needs_payment_method: needsPaymentMethod },
        });
        await announce(trx, "limit", account);
        return true;
      }),

    customer: (account) =>
      db
        .selectFrom("account")
        .leftJoin("account_billing as b", "b.account_id", "account.account_id")
        .select(["customer", "email"])
        .where("account.account_id", "=", account)
        .executeTakeFirst(),

    setCustomer: async (account, customer) => void (await keep(db, account, { customer })),

    async clearFailures(account) {
      await db
        .updateTable("account_billing")
        .set({ card_failed: false, topup_failed: false })
        .where("account_id", "=", account)
        .where((where) => where.or([where("card_failed", "=", true), where("topup_failed", "=", true)]))
        .execute();
    },

    async accountOf(customer) {
      const row = await db
        .selectFrom("account_billing")
        .select("account_id")
        .where("customer", "=", customer)
        .executeTakeFirst();
      return row?.account_id as AccountId | undefined;
    },

    async noteEvent(event_id, kind) {
      await db
        .insertInto("payment_event")
        .values({ event_id, kind })
        .onConflict((conflict) => conflict.doNothing())
        .execute();
    },

    async requestCosts(account, ids) {
      const { rows } = await sql<{ id: string; cost: bigint }>`
        with asked as (
          select id, id as request_id from unnest(${[...ids]}::text[]) as id
          union select l.label, l.request_id from request_label l
          where l.label = any(${[...ids]}::text[]) and l.account_id = ${account}
        )
        select asked.id, sum(u.charge)::bigint as cost from asked join usage u on u.request_id = asked.request_id
        where u.account_id = ${account} group by 1`.execute(db);
      return new Map(rows.map((row) => [row.id, row.cost]));
    },
  });
}

/** Writes into the account's row, making it at its first use; answers what stood there. */
async function keep(
  db: Kysely<Database> | Transaction<Database>,
  account: AccountId,
  set: Omit<Insertable<Database["account_billing"]>, "account_id">,
) {
  const before = await db
    .selectFrom("account_billing")
    .selectAll()
    .where("account_id", "=", account)
    .executeTakeFirst();
  await db
    .insertInto("account_billing")
    .values({ account_id: account, ...set })
    .onConflict((conflict) => conflict.column("account_id").doUpdateSet(set))
    .execute();
  return { before };
}
