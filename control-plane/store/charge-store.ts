import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { Charge, ChargeStore } from "../billing/store.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

export function createChargeStore(db: Kysely<Database>): ChargeStore {
  const withCustomer = (from: Kysely<Database>) =>
    from
      .selectFrom("charge as c")
      .leftJoin("account_billing as b", "b.account_id", "c.account_id")
      .selectAll("c")
      .select("b.customer");

  return asked<ChargeStore>({
    async begin({ account, amount, purpose, invoiceId, provider }, claimMs) {
      const charge_id = `chg_${randomId(20)}`;
      // One partial unique index or the other refuses the second.
      const inserted = await db
        .insertInto("charge")
        .values({
          charge_id,
          account_id: account,
          amount,
          purpose,
          invoice_id: invoiceId,
          provider,
          state: "charging",
          claimed_until: until(claimMs),
        })
        .onConflict((conflict) => conflict.doNothing())
        .returning("charge_id")
        .executeTakeFirst();
      if (!inserted) return undefined;
      const row = await withCustomer(db).where("charge_id", "=", charge_id).executeTakeFirst();
      return row && chargeOf(row);
    },

    async find(id) {
      const row = await withCustomer(db).where("charge_id", "=", id).executeTakeFirst();
      return row && chargeOf(row);
    },

    async claimAbandoned(claimMs) {
      const claimed = await db
        .updateTable("charge")
        .set({ claimed_until: until(claimMs) })
        .where("state", "=", "charging")
        .where("claimed_until", "<", sql<Date>`now()`)
        .returning("charge_id")
        .execute();
      if (claimed.length === 0) return [];
      const ids = claimed.map((row) => row.charge_id);
      return (await withCustomer(db).where("charge_id", "in", ids).execute()).map(chargeOf);
    },

    async move(id, from, to, reference) {
      const isEnd = to === "done" || to === "failed";
      const { numUpdatedRows } = await db
        .updateTable("charge")
        .set({ state: to, reference: reference || null, ...(isEnd ? { ended_at: sql<Date>`now()` } : {}) })
        .where("charge_id", "=", id)
        .where("state", "=", from)
        .executeTakeFirst();
      return numUpdatedRows > 0n;
    },

    fail: (id, from, why, isCard, by) =>
      inTransaction(db, async (trx) => {
        const failed = await trx
          .updateTable("charge")
          .set({ state: "failed", note: why, ended_at: sql<Date>`now()` })
          .where("charge_id", "=", id)
          .where("state", "=", from)
          .returning(["account_id", "purpose"])
          .executeTakeFirst();
        if (!failed) return false;
        const marks = {
          ...(failed.purpose === "topup" ? { topup_failed: true } : {}),
          ...(isCard ? { card_failed: true } : {}),
        };
        await trx
          .insertInto("account_billing")
          .values({ account_id: failed.account_id, ...marks })
          .onConflict((conflict) => conflict.column("account_id").doUpdateSet(marks))
          .execute();
        await auditFailure(trx, id, failed.account_id, why, by);
        return true;
      }),

    async requested() {
      const rows = await withCustomer(db).where("state", "=", "requested").orderBy("c.created_at").execute();
      return rows.map(chargeOf);
    },

    async onFile(customer, found) {
      await sql`
        update account_billing set has_billing_address = ${found.hasBillingAddress},
          card_failed = card_failed and (has_payment_method or not ${found.hasPaymentMethod}),
          topup_failed = topup_failed and (has_payment_method or not ${found.hasPaymentMethod}),
          has_payment_method = ${found.hasPaymentMethod}
        where customer = ${customer}`.execute(db);
    },
  });
}

async function auditFailure(
  trx: Transaction<Database>,
  id: string,
  account: string,
  note: string,
  by?: { readonly actor: string; readonly ip: string },
): Promise<void> {
  const { actor, ip } = by ?? { actor: "system", ip: "" };
  await writeAudit(trx, { actor, ip, action: "charge.fail", subject: id, account, note });
}

const until = (ms: number) => sql<Date>`now() + make_interval(secs => ${ms / 1000})`;

function chargeOf(row: Selectable<Database["charge"]> & { customer: string | null }): Charge {
  return {
    id: row.charge_id,
    account: row.account_id as AccountId,
    customer: row.customer,
    purpose: row.purpose,
    invoiceId: row.invoice_id,
    amount: row.amount,
    state: row.state,
    createdAtMs: row.created_at.getTime(),
  };
}
