import { sql } from "kysely";
import { accountBudget, randomId } from "../../../proto/ids.ts";
import { type Act, bySystem } from "../../act.ts";
import type { Charge, ChargeStore, Payment, Unmade } from "../../billing/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { affectsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, interval, now } from "../core/time.ts";
import { accountMoney, owedOf } from "./account-money.ts";
import { lockBudgets } from "./budget-rows.ts";
import { grantIn } from "./funds-store.ts";

export function createChargeStore(db: Db): ChargeStore {
  const withCustomer = (from: Db) =>
    from
      .selectFrom("charge as c")
      .leftJoin("accountBilling as b", "b.accountId", "c.accountId")
      .select(["chargeId as id", "c.accountId as account", "b.customer", "purpose", "invoiceId", "amount", "state"])
      .select(["reference as paymentId", epochMs("c.createdAt").as("createdAtMs")]);

  /** Undefined: one is in flight. */
  async function insert(trx: Trx, charge: NewCharge, claimMs: number): Promise<Charge | undefined> {
    const chargeId = `chg_${randomId(20)}`;
    const { account, purpose, invoiceId, provider, amount } = charge;
    const inserted = await trx
      .insertInto("charge")
      .values({
        ...{ chargeId, accountId: account, amount, purpose, invoiceId: invoiceId, provider },
        state: "charging",
        claimedUntil: until(claimMs),
      })
      .onConflict((conflict) => conflict.doNothing())
      .returning("chargeId")
      .executeTakeFirst();
    if (!inserted) return undefined;
    return withCustomer(trx).where("chargeId", "=", chargeId).executeTakeFirst();
  }

  return asked<ChargeStore>({
    begin: ({ account, purpose, invoiceId, provider }, amountOf, claimMs) =>
      inTransaction(db, async (trx) => {
        // A charge is credited before it ends, and credits take this lock. So an ended charge is in the books read after it,
        // and a running one is refused by a partial unique index.
        await lockBudgets(trx, [accountBudget(account)]);
        const money = await accountMoney(trx, account, Date.now());
        if (!money) return undefined;
        const unmade = await unmadeOf(trx, { account, purpose, invoiceId });
        const amount = amountOf({ money, owed: await owedOf(trx, account), unmade });
        return amount <= 0n ? undefined : insert(trx, { account, purpose, invoiceId, provider, amount }, claimMs);
      }),

    replaceTopup: ({ account, amount, provider }, claimMs) =>
      inTransaction(db, async (trx) => {
        await lockBudgets(trx, [accountBudget(account)]);
        const note = "another amount was requested";
        // The operator decides on what was read: another amount is another request.
        const replaced = await trx
          .updateTable("charge")
          .set({ state: "failed", note, cause: "replaced", endedAt: now })
          .where("accountId", "=", account)
          .where("purpose", "=", "topup")
          .where("provider", "=", provider)
          .where("state", "in", ["charging", "requested"])
          .where("amount", "!=", amount)
          .returning("chargeId")
          .execute();
        for (const { chargeId } of replaced) await auditFailure(trx, chargeId, account, note);
        return insert(trx, { account, purpose: "topup", invoiceId: null, provider, amount }, claimMs);
      }),

    find: (id) => withCustomer(db).where("chargeId", "=", id).executeTakeFirst(),

    async claimAbandoned(claimMs) {
      const claimed = await db
        .updateTable("charge")
        .set({ claimedUntil: until(claimMs) })
        .where("state", "=", "charging")
        .where("claimedUntil", "<", now)
        .returning("chargeId")
        .execute();
      if (claimed.length === 0) return [];
      const ids = claimed.map((row) => row.chargeId);
      return withCustomer(db).where("chargeId", "in", ids).execute();
    },

    async move(id, from, to, reference) {
      const isEnd = to === "done" || to === "failed";
      return db
        .updateTable("charge")
        .set({ state: to, reference: reference || null, ...(isEnd ? { endedAt: now } : {}) })
        .where("chargeId", "=", id)
        .where("state", "=", from)
        .$call(affectsRow);
    },

    fail: (id, from, why, cause, by) =>
      inTransaction(db, async (trx) => {
        const failed = await trx
          .updateTable("charge")
          .set({ state: "failed", note: why, cause, endedAt: now })
          .where("chargeId", "=", id)
          .where("state", "=", from)
          .returning(["accountId", "purpose"])
          .executeTakeFirst();
        if (!failed) return false;
        const marks = {
          ...(failed.purpose === "topup" && cause !== "nobody" ? { topupFailed: true } : {}),
          ...(cause === "card" ? { cardFailed: true } : {}),
          // No retry until the provider reports a payment method.
          ...(cause === "nothing_on_file" ? { hasPaymentMethod: false } : {}),
        };
        if (Object.keys(marks).length > 0)
          await trx
            .insertInto("accountBilling")
            .values({ accountId: failed.accountId, ...marks })
            .onConflict((conflict) => conflict.column("accountId").doUpdateSet(marks))
            .execute();
        await auditFailure(trx, id, failed.accountId, why, by);
        return true;
      }),

    fulfil: ({ id, account }, grant, by) =>
      inTransaction(db, async (trx) => {
        // The budget first, as everywhere: `begin` waits for a charge's row while it holds the budget.
        await lockBudgets(trx, [accountBudget(account)]);
        const { numUpdatedRows } = await trx
          .updateTable("charge")
          .set({ state: "done", reference: grant.reference, endedAt: now })
          .where("chargeId", "=", id)
          .where("state", "=", "requested")
          .executeTakeFirst();
        if (numUpdatedRows === 0n) return false;
        const outcome = await grantIn(trx, grant, by);
        if (outcome.kind !== "granted") throw new Error(`the credit of charge ${id} was not granted: ${outcome.kind}`);
        return true;
      }),

    requested: () => withCustomer(db).where("state", "=", "requested").orderBy("c.createdAt").execute(),

    async payments(account, limit) {
      // A paid top-up is shown as its credit, which exists also where the customer paid on the provider's page.
      const { rows } = await sql<Payment>`
        (select charge_id as id, 'topup' as kind, amount, state, case when state = 'failed' then note else '' end as why,
            ${epochMs("createdAt")} as created_at_ms
          from charge where account_id = ${account} and purpose = 'topup' and state <> 'done'
          order by created_at desc limit ${limit})
        union all
        (select reference, kind, amount, 'done', '', ${epochMs("grantedAt")}
          from credit where account_id = ${account} order by granted_at desc limit ${limit})
        order by created_at_ms desc, id limit ${limit}`.execute(db);
      return rows;
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

/** Counts failures without a cause since the last charge of the kind that ended otherwise. */
async function unmadeOf(
  trx: Trx,
  { account, purpose, invoiceId }: Omit<NewCharge, "amount" | "provider">,
): Promise<Unmade> {
  const { rows } = await sql<{ count: number; agoMs: number | null }>`
    with of_kind as (
      select * from charge where account_id = ${account} and purpose = ${purpose} and invoice_id is not distinct from ${invoiceId}
    )
    select count(*)::int as count, (extract(epoch from now() - max(ended_at)) * 1000)::float8 as ago_ms from of_kind
    where state = 'failed' and cause = 'nobody' and created_at > coalesce((select max(created_at) from of_kind
      where state = 'done' or (state = 'failed' and cause is distinct from 'nobody')), '-infinity')`.execute(trx);
  return { count: rows[0]?.count ?? 0, agoMs: rows[0]?.agoMs ?? 0 };
}

async function auditFailure(trx: Trx, id: string, account: string, note: string, by?: Act): Promise<void> {
  await auditAct(trx, { ...(by ?? bySystem(note)), note }, { action: "charge.fail", subject: id, account });
}

const until = (ms: number) => sql<Date>`now() + ${interval(ms)}`;
