import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { AccountStatusStore } from "../../billing/store.ts";
import { liftIn, lockReasons, suspendIn } from "../accounts/suspension-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { accountMoney, owedOf } from "./account-money.ts";

const act = (note: string) => ({ by: "system", ip: "", note });

export function createAccountStatusStore(db: Db): AccountStatusStore {
  return asked<AccountStatusStore>({
    async stale(monthStartMs) {
      const month = new Date(monthStartMs).toISOString().slice(0, 7).replace("-", "");
      const { rows } = await sql<{ accountId: AccountId }>`
        with funds as (
          select b.account_id, b.lim, b.spent from budget b join account a using (account_id)
          where b.scope = 'account' and a.deleted_at is null and b.lim is not null
        )
        select account_id from funds f where spent >= lim and not exists (
          select from account_suspension s where s.account_id = f.account_id and s.reason = 'balance')
        union select s.account_id from account_suspension s left join funds f using (account_id)
          where suspended_by = 'system' and (reason not in ('balance', 'admin') or (reason = 'balance' and f.spent < f.lim))
        union select account_id from invoice where paid_at is null
        union select b.account_id from budget b where budget_id in (
            select 'account-month/' || account_id || ${`/${month}`} from account
            where monthly_limit is not null and deleted_at is null)
          and b.lim is not null and b.spent >= b.lim and not exists (
            select from account_suspension s where s.account_id = b.account_id and s.reason = 'limit-reached')
        union select account_id from account_billing where card_failed or (needs_payment_method and not has_payment_method)
        union select f.account_id from funds f join account_billing a using (account_id)
          where a.topup_enabled and not a.topup_failed and a.topup_amount > 0
            and f.lim - a.credit_line - f.spent < a.topup_threshold`.execute(db);
      return rows.map((row) => row.accountId);
    },

    update: (account, monthStartMs, decide) =>
      inTransaction(db, async (trx) => {
        if (!(await lockReasons(trx, account))) return undefined;
        const money = await accountMoney(trx, account, monthStartMs);
        if (!money) return undefined;
        const books = { money, owed: await owedOf(trx, account), held: await heldBy(trx, account) };
        const decision = decide(books);
        await markPaid(trx, account, decision.paidInvoices);
        await trx
          .insertInto("accountBilling")
          .values({ accountId: account, checkedAt: now })
          .onConflict((conflict) => conflict.column("accountId").doUpdateSet({ checkedAt: now }))
          .execute();
        let isChanged = false;
        for (const reason of decision.suspend)
          isChanged = (await suspendIn(trx, account, reason, act("set automatically"))) || isChanged;
        if (decision.lift.length > 0)
          isChanged = (await liftIn(trx, account, decision.lift, act("its cause is gone"))) || isChanged;
        if (isChanged) await announce(trx, "account", account);
        return books;
      }),
  });
}

async function heldBy(trx: Trx, account: AccountId) {
  const rows = await trx
    .selectFrom("accountSuspension")
    .select(["reason", "suspendedBy"])
    .where("accountId", "=", account)
    .execute();
  return rows.map((row) => ({ reason: row.reason, isOurs: row.suspendedBy === "system" }));
}

async function markPaid(trx: Trx, account: AccountId, invoices: readonly string[]): Promise<void> {
  if (invoices.length === 0) return;
  await trx
    .updateTable("invoice")
    .set({ paidAt: now })
    .where("accountId", "=", account)
    .where("invoiceId", "in", [...invoices])
    .where("paidAt", "is", null)
    .execute();
}
