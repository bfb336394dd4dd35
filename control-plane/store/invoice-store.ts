import { type Kysely, sql, type Transaction } from "kysely";
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { InvoiceStore, UsageLine } from "../billing/store.ts";
import { invoiceOf, owedOf } from "./account-money.ts";
import { asking, inTransaction } from "./database.ts";
import { writeLedger } from "./ledger-rows.ts";
import type { Database } from "./schema.ts";
import { invoiceLines, ledgerLines } from "./usage-lines.ts";

export function createInvoiceStore(db: Kysely<Database>): InvoiceStore {
  return {
    nextOpenMonth: () =>
      asking(async () => {
        const { rows } = await sql<{ month: number | null }>`
          select coalesce(
            (select max(month) + 1 from billing_month),
            (select (extract(year from t) * 12 + extract(month from t) - 1)::int from (
              select min(posted_at) at time zone 'UTC' as t from ledger_entry) first)) as month`.execute(db);
        return rows[0]?.month ?? undefined;
      }),

    unclosed: (month, limit) =>
      asking(async () => {
        const { from, to } = monthBounds(month);
        const { rows } = await sql<{ account_id: AccountId }>`
          select distinct account_id from ledger_entry e
          where book = 'customer_spent' and kind <> 'invoice'
            and posted_at >= ${from}::timestamptz and posted_at < ${to}::timestamptz
            and not exists (select from invoice i where i.account_id = e.account_id and i.month = ${month})
          limit ${limit}`.execute(db);
        return rows.map((row) => row.account_id);
      }),

    close: (account, month, draft) =>
      asking(() =>
        inTransaction(db, async (trx) => {
          const bounds = monthBounds(month);
          const terms = await trx
            .selectFrom("account_billing")
            .select("due_days")
            .where("account_id", "=", account)
            .executeTakeFirst();
          const lines = await ledgerLines(trx, account, bounds.fromMs, bounds.toMs);
          const made = draft(lines, terms?.due_days ?? 14);
          if (!made) return false;
          const invoice_id = `inv_${randomId(20)}`;
          const inserted = await trx
            .insertInto("invoice")
            .values({ invoice_id, account_id: account, month, total: made.total, due_at: new Date(made.dueAtMs) })
            .onConflict((conflict) => conflict.columns(["account_id", "month"]).doNothing())
            .returning("invoice_id")
            .executeTakeFirst();
          if (!inserted) return false;
          await insertLines(trx, invoice_id, account, made.lines);
          await writeLedger(trx, [
            {
              from: "customer_spent",
              to: "platform_revenue",
              amount: made.total,
              kind: "invoice",
              account,
              note: invoice_id,
            },
          ]);
          return true;
        }),
      ),

    markClosed: (month) =>
      asking(async () => {
        await db
          .insertInto("billing_month")
          .values({ month })
          .onConflict((conflict) => conflict.doNothing())
          .execute();
      }),

    list: (account, limit, before) =>
      asking(async () => {
        let query = db.selectFrom("invoice").selectAll().where("account_id", "=", account);
        if (before !== undefined) query = query.where("month", "<", before);
        return (await query.orderBy("month", "desc").limit(limit).execute()).map(invoiceOf);
      }),

    get: (invoiceId) =>
      asking(async () => {
        const row = await db.selectFrom("invoice").selectAll().where("invoice_id", "=", invoiceId).executeTakeFirst();
        if (!row) return undefined;
        return { ...invoiceOf(row), lines: (await invoiceLines(db, [invoiceId])).get(invoiceId) ?? [] };
      }),

    owed: (account) => asking(() => owedOf(db, account)),
  };
}

async function insertLines(
  trx: Transaction<Database>,
  invoice_id: string,
  account_id: string,
  lines: readonly UsageLine[],
): Promise<void> {
  await trx
    .insertInto("invoice_line")
    .values(
      lines.map((line) => ({
        invoice_id,
        account_id,
        key_id: line.key,
        model: line.model,
        task: line.task,
        is_private: line.isPrivate,
        pricing_type: line.pricingType,
        price_version: line.priceVersion,
        discount_id: line.discount?.id ?? null,
        discount_name: line.discount?.name ?? "",
        discount_text: line.discount?.text ?? "",
        milli_units: line.milliUnits,
        cost: line.cost,
      })),
    )
    .execute();
}

/** Bounds of a month of billing/period.ts. */
function monthBounds(month: number) {
  const start = (at: number) => Date.UTC(Math.floor(at / 12), at % 12, 1);
  const [fromMs, toMs] = [start(month), start(month + 1)];
  return { fromMs, toMs, from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() };
}
