import { type Insertable, sql } from "kysely";
import { type AccountId, accountBudget } from "../../../proto/ids.ts";
import type { BillingSettingsStore, BillingStore } from "../../billing/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Database, Db } from "../core/schema.ts";
import { accountMoney } from "./account-money.ts";

export function createBillingStore(db: Db): BillingStore & BillingSettingsStore {
  return asked<BillingStore & BillingSettingsStore>({
    accountMoney: (account, monthStartMs) => accountMoney(db, account, monthStartMs),

    setTopup: (account, { isOn, amount, threshold }, by) =>
      inTransaction(db, async (trx) => {
        const { before } = await keep(trx, account, {
          topupEnabled: isOn,
          topupAmount: amount,
          topupThreshold: threshold,
          topupFailed: false,
        });
        await auditAct(trx, by, {
          action: "topup.change",
          subject: account,
          account,
          before: {
            enabled: before?.topupEnabled ?? false,
            amount: String(before?.topupAmount ?? 0n),
            threshold: String(before?.topupThreshold ?? 0n),
          },
          after: { enabled: isOn, amount: String(amount), threshold: String(threshold) },
        });
      }),

    async settings(account) {
      const row = await db
        .selectFrom("accountBilling")
        .select(["alertUrl", "alertMail", "invoiceAddress"])
        .where("accountId", "=", account)
        .executeTakeFirst();
      return row ?? { alertUrl: null, alertMail: true, invoiceAddress: "" };
    },

    setAlertTarget: (account, target, by) =>
      inTransaction(db, async (trx) => {
        const set = { alertUrl: target?.url ?? null, alertHost: target?.host ?? null };
        const { before } = await keep(trx, account, set);
        // The query of a URL may hold a secret.
        const change = { before: { host: before?.alertHost ?? null }, after: { host: set.alertHost } };
        await auditAct(trx, by, { action: "alert_webhook.change", subject: account, account, ...change });
      }),

    setAlertMail: (account, alertMail, by) =>
      inTransaction(db, async (trx) => {
        const { before } = await keep(trx, account, { alertMail });
        const change = { before: { is_on: before?.alertMail ?? true }, after: { is_on: alertMail } };
        await auditAct(trx, by, { action: "alert_mail.change", subject: account, account, ...change });
      }),

    setInvoiceAddress: (account, invoiceAddress, by) =>
      inTransaction(db, async (trx) => {
        await keep(trx, account, { invoiceAddress });
        await auditAct(trx, by, { action: "invoice_address.change", subject: account, account });
      }),

    async terms(account) {
      const row = await db
        .selectFrom("account")
        .leftJoin("accountBilling as b", "b.accountId", "account.accountId")
        .select(["creditLine", "dueDays", "needsPaymentMethod"])
        .where("account.accountId", "=", account)
        .where("deletedAt", "is", null)
        .executeTakeFirst();
      return (
        row && {
          creditLine: row.creditLine ?? 0n,
          dueDays: row.dueDays ?? 14,
          needsPaymentMethod: row.needsPaymentMethod ?? false,
        }
      );
    },

    setTerms: (account, { creditLine, dueDays, needsPaymentMethod }, by) =>
      inTransaction(db, async (trx) => {
        const budgetId = accountBudget(account);
        const { rows } = await sql`select from budget where budget_id = ${budgetId} for update`.execute(trx);
        if (rows.length === 0) return false;
        const { before } = await keep(trx, account, {
          creditLine,
          dueDays,
          needsPaymentMethod,
        });
        const more = creditLine - (before?.creditLine ?? 0n);
        await trx
          .updateTable("budget")
          .set({ lim: sql<bigint | null>`lim + ${more.toString()}::bigint` })
          .where("budgetId", "=", budgetId)
          .execute();
        await auditAct(trx, by, {
          action: "terms.change",
          subject: account,
          account,
          before: { credit_line: String(before?.creditLine ?? 0n), due_days: before?.dueDays ?? 14 },
          after: { credit_line: String(creditLine), due_days: dueDays, needs_payment_method: needsPaymentMethod },
        });
        await announce(trx, "limit", account);
        return true;
      }),

    customer: (account) =>
      db
        .selectFrom("account")
        .leftJoin("accountBilling as b", "b.accountId", "account.accountId")
        .select(["customer", "email"])
        .where("account.accountId", "=", account)
        .executeTakeFirst(),

    setCustomer: async (account, customer) => void (await keep(db, account, { customer })),

    async clearFailures(account) {
      await db
        .updateTable("accountBilling")
        .set({ cardFailed: false, topupFailed: false })
        .where("accountId", "=", account)
        .where((where) => where.or([where("cardFailed", "=", true), where("topupFailed", "=", true)]))
        .execute();
    },

    async accountOf(customer) {
      const row = await db
        .selectFrom("accountBilling")
        .select("accountId")
        .where("customer", "=", customer)
        .executeTakeFirst();
      return row?.accountId;
    },

    async noteEvent(eventId, kind) {
      await db
        .insertInto("paymentEvent")
        .values({ eventId, kind })
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
async function keep(db: Db, account: AccountId, set: Omit<Insertable<Database["accountBilling"]>, "accountId">) {
  const before = await db.selectFrom("accountBilling").selectAll().where("accountId", "=", account).executeTakeFirst();
  await db
    .insertInto("accountBilling")
    .values({ accountId: account, ...set })
    .onConflict((conflict) => conflict.column("accountId").doUpdateSet(set))
    .execute();
  return { before };
}
