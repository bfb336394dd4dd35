import { type Kysely, sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { SuspendReason } from "../../../proto/suspend-reason.ts";
import type { AccountSummary, AdminAccountStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { hasOtherAdmin, liveAccount, lockAdmins } from "./account-rows.ts";
import { writeAudit } from "./audit-rows.ts";

export function createAdminStore(db: Kysely<Database>): AdminAccountStore {
  const known = () =>
    db
      .selectFrom("account")
      .leftJoin("budget", (join) => join.on("budget.budgetId", "=", sql<string>`'account/' || account.account_id`))
      .select([
        "account.accountId",
        "email",
        "displayName",
        "isAdmin",
        "isTeamAccount",
        "suspendReason",
        "account.createdAt",
        "account.deletedAt",
        "lim",
        "spent",
      ]);
  const living = () => known().where("deletedAt", "is", null);

  return asked<AdminAccountStore>({
    async firstAdmin() {
      const row = await living().where("isAdmin", "=", true).orderBy("account.createdAt").limit(1).executeTakeFirst();
      return row?.accountId as AccountId | undefined;
    },

    async list(query, after, limit) {
      let rows = living().orderBy("account.createdAt", "desc").orderBy("account.accountId", "desc").limit(limit);
      if (query !== "") {
        const text = query.toLowerCase();
        rows = rows.where(
          sql<boolean>`position(${text} in lower(email || ' ' || display_name || ' ' || account.account_id)) > 0`,
        );
      }
      if (after !== undefined)
        rows = rows.where(
          sql<boolean>`(account.created_at, account.account_id) <
            (select a.created_at, a.account_id from account a where a.account_id = ${after})`,
        );
      return (await rows.execute()).map(summaryOf);
    },

    async get(account) {
      const row = await known()
        .select((of) => [
          of
            .selectFrom("apiKey")
            .select((key) => key.fn.countAll<bigint>().as("keys"))
            .whereRef("apiKey.accountId", "=", "account.accountId")
            .where("revokedAt", "is", null)
            .as("keys"),
          of
            .selectFrom("deployment")
            .select((one) => one.fn.countAll<bigint>().as("deployments"))
            .whereRef("deployment.accountId", "=", "account.accountId")
            .where("status", "<>", "deleted")
            .as("deployments"),
        ])
        .where("account.accountId", "=", account)
        .executeTakeFirst();
      return (
        row && {
          ...summaryOf(row),
          deletedAtMs: row.deletedAt?.getTime() ?? null,
          credited: row.lim === null ? null : nano(row.lim),
          keys: Number(row.keys),
          deployments: Number(row.deployments),
        }
      );
    },

    change: (account, request, act) =>
      inTransaction(db, async (trx) => {
        await lockAdmins(trx);
        const row = await liveAccount(trx, account).select(["isAdmin", "isTeamAccount"]).forUpdate().executeTakeFirst();
        if (!row) return "gone";
        const before = { isAdmin: row.isAdmin, isTeamAccount: row.isTeamAccount };
        const after = {
          isAdmin: request.isAdmin ?? row.isAdmin,
          isTeamAccount: request.isTeamAccount ?? row.isTeamAccount,
        };
        if (before.isAdmin === after.isAdmin && before.isTeamAccount === after.isTeamAccount) return "done";
        if (before.isAdmin && !after.isAdmin && !(await hasOtherAdmin(trx, account))) return "last_admin";
        await trx
          .updateTable("account")
          .set({ ...after, ...(after.isTeamAccount ? {} : { teamDisplayName: null }) })
          .where("accountId", "=", account)
          .execute();
        await writeAudit(trx, {
          actor: act.by,
          action: "account.change",
          subject: account,
          account,
          ip: act.ip,
          before: audited(before),
          after: audited(after),
          note: act.note,
        });
        await announce(trx, "account", account);
        return "done";
      }),
  });
}

const audited = ({ isAdmin, isTeamAccount }: { isAdmin: boolean; isTeamAccount: boolean }) => ({
  is_admin: isAdmin,
  is_team_account: isTeamAccount,
});

function summaryOf(row: {
  accountId: string;
  email: string;
  displayName: string;
  isAdmin: boolean;
  isTeamAccount: boolean;
  suspendReason: string | null;
  createdAt: Date;
  lim: bigint | null;
  spent: bigint | null;
}): AccountSummary {
  const spent = row.spent ?? 0n;
  return {
    account: row.accountId as AccountId,
    email: row.email,
    displayName: row.displayName,
    isAdmin: row.isAdmin,
    isTeamAccount: row.isTeamAccount,
    suspendReason: row.suspendReason as SuspendReason | null,
    createdAtMs: row.createdAt.getTime(),
    funds: row.lim === null ? null : nano(row.lim - spent),
    spent: nano(spent),
  };
}
