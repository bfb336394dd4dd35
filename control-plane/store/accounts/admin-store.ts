import { sql } from "kysely";
import type { BudgetId } from "../../../proto/ids.ts";
import type { NanoUsd } from "../../../proto/money.ts";
import type { AccountChange, AdminAccountStore } from "../../accounts/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { accountColumns, hasOtherAdmin, liveAccount, lockAdmins } from "./account-rows.ts";
import { auditAct } from "./audit-rows.ts";

export function createAdminStore(db: Db): AdminAccountStore {
  const known = () =>
    db
      .selectFrom("account")
      .leftJoin("budget", (join) => join.on("budget.budgetId", "=", sql<BudgetId>`'account/' || account.account_id`))
      .select([...accountColumns, "isTeamAccount"])
      .select([sql<NanoUsd | null>`lim - spent`.as("funds"), sql<NanoUsd>`coalesce(spent, 0)`.as("spent")]);
  const living = () => known().where("deletedAt", "is", null);

  return asked<AdminAccountStore>({
    async firstAdmin() {
      const row = await living().where("isAdmin", "=", true).orderBy("account.createdAt").limit(1).executeTakeFirst();
      return row?.account;
    },

    list({ query, suspended }, after, limit) {
      let rows = living().orderBy("account.createdAt", "desc").orderBy("account.accountId", "desc").limit(limit);
      if (query !== "") {
        const text = query.toLowerCase();
        rows = rows.where(
          sql<boolean>`position(${text} in lower(email || ' ' || display_name || ' ' || account.account_id)) > 0`,
        );
      }
      if (suspended === "any") rows = rows.where("suspendReason", "is not", null);
      else if (suspended !== undefined)
        rows = rows.where((row) =>
          row.exists(
            row
              .selectFrom("accountSuspension")
              .select(sql.lit(1).as("one"))
              .whereRef("accountSuspension.accountId", "=", "account.accountId")
              .where("reason", "=", suspended),
          ),
        );
      if (after !== undefined)
        rows = rows.where(
          sql<boolean>`(account.created_at, account.account_id) <
            (select a.created_at, a.account_id from account a where a.account_id = ${after})`,
        );
      return rows.execute();
    },

    get: (account) =>
      known()
        .select([epochMs<null>("account.deletedAt").as("deletedAtMs"), sql<NanoUsd | null>`lim`.as("credited")])
        .select([
          sql<number>`(select count(*)::int from api_key k where k.account_id = account.account_id
            and k.revoked_at is null)`.as("keys"),
          sql<number>`(select count(*)::int from deployment d where d.account_id = account.account_id
            and d.status <> 'deleted')`.as("deployments"),
        ])
        .where("account.accountId", "=", account)
        .executeTakeFirst(),

    async names(accounts) {
      const rows = await db
        .selectFrom("account")
        .select(["accountId as account", "email", "displayName"])
        .where(sql<boolean>`account_id = any(${accounts}::text[])`)
        .execute();
      return new Map(rows.map(({ account, ...name }) => [account, name]));
    },

    change: (account, request, act) =>
      inTransaction(db, async (trx) => {
        await lockAdmins(trx);
        const before = await liveAccount(trx, account)
          .select(["isAdmin", "isTeamAccount", "mayPrioritize"])
          .forUpdate()
          .executeTakeFirst();
        if (!before) return "gone";
        const after = { ...before, ...request };
        const isSame =
          before.isAdmin === after.isAdmin &&
          before.isTeamAccount === after.isTeamAccount &&
          before.mayPrioritize === after.mayPrioritize;
        if (isSame) return "done";
        if (before.isAdmin && !after.isAdmin && !(await hasOtherAdmin(trx, account))) return "last_admin";
        await trx
          .updateTable("account")
          .set({ ...after, ...(after.isTeamAccount ? {} : { teamDisplayName: null }) })
          .where("accountId", "=", account)
          .execute();
        await auditAct(trx, act, {
          action: "account.change",
          subject: account,
          account,
          before: audited(before),
          after: audited(after),
        });
        await announce(trx, "account", account);
        return "done";
      }),

    noteView: (account, act, action) =>
      inTransaction(db, (trx) => auditAct(trx, act, { action, subject: account, account })),
  });
}

const audited = ({ isAdmin, isTeamAccount, mayPrioritize }: Required<AccountChange>) => ({
  is_admin: isAdmin,
  is_team_account: isTeamAccount,
  may_prioritize: mayPrioritize,
});
