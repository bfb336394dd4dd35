import { sql } from "kysely";
import { type AccountId, randomId } from "../../../proto/ids.ts";
import type { InvoiceBuyer, InvoiceStore, UsageLine } from "../../billing/store.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { invoiceColumns, owedOf } from "./account-money.ts";
import { writeLedger } from "./ledger-rows.ts";
import { invoiceLines, monthLines } from "./usage-lines.ts";

export function createInvoiceStore(db: Db): InvoiceStore {
  return asked<InvoiceStore>({
    async nextOpenMonth() {
      const { rows } = await sql<{ month: number | null }>`
        select coalesce(
          (select max(month) + 1 from billing_month),
          (select (extract(year from t) * 12 + extract(month from t) - 1)::int from (
            select min(posted_at) at time zone 'UTC' as t from ledger_entry) first)) as month`.execute(db);
      return rows[0]?.month ?? undefined;
    },

    differing: (month) =>
      inTransaction(db, async (trx) => {
        // A month of tens of millions of entries exceeds the time limit of requests.
        await sql`set local statement_timeout = '600s'`.execute(trx);
        const [from, to] = [month, month + 1].map((at) =>
          new Date(Date.UTC(Math.floor(at / 12), at % 12)).toISOString(),
        );
        const { rows } = await sql<{ accountId: AccountId }>`/* at most 600 s */
          select account_id from (
            select account_id, amount as cost, 1 as entries from ledger_entry
            where book = 'customer_spent' and kind <> 'invoice'
              and posted_at >= ${from}::timestamptz and posted_at < ${to}::timestamptz
            union all
            select account_id, -cost, -entries from usage_day where month = ${month}
          ) said group by account_id having sum(cost) <> 0 or sum(entries) <> 0`.execute(trx);
        return new Set(rows.map((row) => row.accountId));
      }),

    async unclosed(month, after, limit) {
      // From the sums that settlements keep: the ledger of a month may have tens of millions of entries.
      const { rows } = await sql<{ accountId: AccountId }>`
        select distinct account_id from usage_day u
        where month = ${month} and entries > 0 and account_id > ${after}
          and not exists (select from invoice i where i.account_id = u.account_id and i.month = ${month})
        order by account_id limit ${limit}`.execute(db);
      return rows.map((row) => row.accountId);
    },

    close: (account, month, draft) =>
      inTransaction(db, async (trx) => {
        const terms = await trx
          .selectFrom("accountBilling")
          .select("dueDays")
          .where("accountId", "=", account)
          .executeTakeFirst();
        // From the sums as well; `differing` compares them with the ledger.
        const lines = await monthLines(trx, account, month, month);
        const made = draft(lines, terms?.dueDays ?? 14);
        if (!made) return false;
        const invoiceId = `inv_${randomId(20)}`;
        const inserted = await trx
          .insertInto("invoice")
          .values({
            invoiceId,
            accountId: account,
            month,
            total: made.total,
            dueAt: new Date(made.dueAtMs),
            buyer: JSON.stringify(await buyerOf(trx, account)),
          })
          .onConflict((conflict) => conflict.columns(["accountId", "month"]).doNothing())
          .returning("invoiceId")
          .executeTakeFirst();
        if (!inserted) return false;
        await insertLines(trx, invoiceId, account, made.lines);
        await writeLedger(trx, [
          {
            from: "customer_spent",
            to: "platform_revenue",
            amount: made.total,
            kind: "invoice",
            account,
            note: invoiceId,
          },
        ]);
        return true;
      }),

    async markClosed(month) {
      await db
        .insertInto("billingMonth")
        .values({ month })
        .onConflict((conflict) => conflict.doNothing())
        .execute();
    },

    async list(account, limit, before) {
      let query = db.selectFrom("invoice").select(invoiceColumns).where("accountId", "=", account);
      if (before !== undefined) query = query.where("month", "<", before);
      return query.orderBy("month", "desc").limit(limit).execute();
    },

    async get(invoiceId) {
      const row = await db
        .selectFrom("invoice")
        .select([...invoiceColumns, "buyer"])
        .where("invoiceId", "=", invoiceId)
        .executeTakeFirst();
      if (!row) return undefined;
      const lines = (await invoiceLines(db, [invoiceId])).get(invoiceId) ?? [];
      return { ...row, lines, buyer: row.buyer ?? (await buyerOf(db, row.account)) };
    },

    owed: (account) => owedOf(db, account),
  });
}

async function buyerOf(db: Db, account: AccountId): Promise<InvoiceBuyer> {
  const row = await db
    .selectFrom("account")
    .leftJoin("accountBilling as b", "b.accountId", "account.accountId")
    .select(["company", "name", "firstName", "lastName", "displayName", "email", "country", "invoiceAddress"])
    .where("account.accountId", "=", account)
    .executeTakeFirstOrThrow();
  const person = row.name || `${row.firstName} ${row.lastName}`.trim();
  const address = row.invoiceAddress || row.country;
  return { name: row.company || person || row.displayName, email: row.email, address };
}

async function insertLines(
  trx: Trx,
  invoiceId: string,
  accountId: AccountId,
  lines: readonly UsageLine[],
): Promise<void> {
  await trx
    .insertInto("invoiceLine")
    .values(
      lines.map((line) => ({
        invoiceId,
        accountId,
        keyId: line.key,
        model: line.model,
        task: line.task,
        isPrivate: line.isPrivate,
        pricingType: line.pricingType,
        priceVersion: line.priceVersion,
        discountId: line.discount?.id ?? null,
        discountName: line.discount?.name ?? "",
        discountText: line.discount?.text ?? "",
        milliUnits: line.milliUnits,
        cost: line.cost,
      })),
    )
    .execute();
}
