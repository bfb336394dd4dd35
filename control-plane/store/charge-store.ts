import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import { type AccountId, accountBudget, randomId } from "../../proto/ids.ts";
import type { Charge, ChargeStore, Unmade } from "../billing/store.ts";
import { accountMoney, owedOf } from "./account-money.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { lockBudgets, movingMoney } from "./budget-rows.ts";
import { inTransaction } from "./database.ts";
import { grantIn } from "./funds-store.ts";
import type { Database } from "./schema.ts";

export function createChargeStore(db: Kysely<Database>): ChargeStore {
  const withCustomer = (from: Kysely<Database>) =>
    from
      .selectFrom("charge as c")
      .leftJoin("account_billing as b", "b.account_id", "c.account_id")
      .selectAll("c")
      .select("b.customer");

  /** Undefined: one is in flight. */
  async function insert(trx: Transaction<Database>, charge: NewCharge, claimMs: number): Promise<Charge | undefined> {
    const charge_id = `chg_${randomId(20)}`;
    const { account, purpose, invoiceId, provider, amount } = charge;
    const inserted = await trx
      .insertInto("charge")
      .values({
        ...{ charge_id, account_id: account, amount, purpose, invoice_id: invoiceId, provider },
        state: "charging",
        claimed_until: until(claimMs),
      })
      .onConflict((conflict) => conflict.doNothing())
      .returning("charge_id")
      .executeTakeFirst();
    if (!inserted) return undefined;
    const row = await withCustomer(trx).where("charge_id", "=", charge_id).executeTakeFirst();
    return row && chargeOf(row);
  }

  return asked<ChargeStore>({
    begin: ({ account, purpose, invoiceId, provider }, amountOf, claimMs) =>
      inTransaction(db, async (trx) => {
        // A charge is credited before it ends, and credits take this lock: whoever ended is in the books read after it, and
        // whoever has not is refused by one partial unique index or the other.
        await lockBudgets(trx, [accountBudget(account)]);
        const money = await accountMoney(trx, account, Date.now());
        if (!money) return undefined;
        const unmade = await unmadeOf(trx, { account, purpose, invoiceId });
        const amount = amountOf({ money, owed: await owedOf(trx, account), unmade });
        return amount <= 0n ? undefined : insert(trx, { account, purpose, invoiceId, provider, amount }, claimMs);
      }),

    beginAnew: ({ account, amount, provider }, claimMs) =>
      inTransaction(db, async (trx) => {
        await lockBudgets(trx, [accountBudget(account)]);
        const note = "another amount was asked for";
        // The operator decides on what was read: another amount is another request.
        const replaced = await trx
          .updateTable("charge")
          .set({ state: "failed", note, cause: "replaced", ended_at: sql<Date>`now()` })
          .where("account_id", "=", account)
          .where("purpose", "=", "topup")
          .where("provider", "=", provider)
          .where("state", "in", ["charging", "requested"])
          .where("amount", "!=", amount)
          .returning("charge_id")
          .execute();
        for (const { charge_id } of replaced) await auditFailure(trx, charge_id, account, note);
        return insert(trx, { account, purpose: "topup", invoiceId: null, provider, amount }, claimMs);
      }),

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

    fail: (id, from, why, cause, by) =>
      inTransaction(db, async (trx) => {
        const failed = await trx
          .updateTable("charge")
          .set({ state: "failed", note: why, cause, ended_at: sql<Date>`now()` })
          .where("charge_id", "=", id)
          .where("state", "=", from)
          .returning(["account_id", "purpose"])
          .executeTakeFirst();
        if (!failed) return false;
        const marks = {
          ...(failed.purpose === "topup" && cause !== "nobody" ? { topup_failed: true } : {}),
          ...(cause === "card" ? { card_failed: true } : {}),
          // Until the provider tells of one, nothing is tried again.
          ...(cause === "nothing_on_file" ? { has_payment_method: false } : {}),
        };
        if (Object.keys(marks).length > 0)
          await trx
            .insertInto("account_billing")
            .values({ account_id: failed.account_id, ...marks })
            .onConflict((conflict) => conflict.column("account_id").doUpdateSet(marks))
            .execute();
        await auditFailure(trx, id, failed.account_id, why, by);
        return true;
      }),

    fulfil: ({ id, account }, grant, { actor, ip }) =>
      movingMoney(db, async (trx) => {
        // The budget first, as everywhere: `begin` waits for a charge's row while it holds the budget.
        await lockBudgets(trx, [accountBudget(account)]);
        const { numUpdatedRows } = await trx
          .updateTable("charge")
          .set({ state: "done", reference: grant.reference, ended_at: sql<Date>`now()` })
          .where("charge_id", "=", id)
          .where("state", "=", "requested")
          .executeTakeFirst();
        if (numUpdatedRows === 0n) return false;
        const outcome = await grantIn(trx, grant, { actor, ip });
        if (outcome.kind !== "granted") throw new Error(`the credit of charge ${id} was not granted: ${outcome.kind}`);
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

type NewCharge = Pick<Charge, "account" | "purpose" | "invoiceId" | "amount"> & { readonly provider: string };

/** Since the last one of the kind that came to something, or failed by somebody's fault. */
async function unmadeOf(
  trx: Transaction<Database>,
  { account, purpose, invoiceId }: Omit<NewCharge, "amount" | "provider">,
): Promise<Unmade> {
  const { rows } = await sql<{ count: number; ago_ms: number | null }>`
    with of_kind as (
      select * from charge where account_id = ${account} and purpose = ${purpose} and invoice_id is not distinct from ${invoiceId}
    )
    select count(*)::int as count, (extract(epoch from now() - max(ended_at)) * 1000)::float8 as ago_ms from of_kind
    where state = 'failed' and cause = 'nobody' and created_at > coalesce((select max(created_at) from of_kind
      where state = 'done' or (state = 'failed' and cause is distinct from 'nobody')), '-infinity')`.execute(trx);
  return { count: rows[0]?.count ?? 0, agoMs: rows[0]?.ago_ms ?? 0 };
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
    paymentId: row.reference,
    createdAtMs: row.created_at.getTime(),
  };
}
