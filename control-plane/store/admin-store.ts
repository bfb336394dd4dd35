import { type Kysely, sql } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import type { SuspendReason } from "../../proto/suspend-reason.ts";
import type { AccountSummary, AdminAccountStore } from "../accounts/store.ts";
import { hasOtherAdmin, liveAccount, lockAdmins } from "./account-rows.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

export function createAdminStore(db: Kysely<Database>): AdminAccountStore {
  const known = () =>
    db
      .selectFrom("account")
      .leftJoin("budget", (join) => join.on("budget.budget_id", "=", sql<string>`'account/' || account.account_id`))
      .select([
        "account.account_id",
        "email",
        "display_name",
        "is_admin",
        "is_team_account",
        "suspend_reason",
        "account.created_at",
        "account.deleted_at",
        "lim",
        "spent",
      ]);
  const living = () => known().where("deleted_at", "is", null);

  return asked<AdminAccountStore>({
    async firstAdmin() {
      const row = await living().where("is_admin", "=", true).orderBy("account.created_at").limit(1).executeTakeFirst();
      return row?.account_id as AccountId | undefined;
    },

    async list(query, after, limit) {
      let rows = living().orderBy("account.created_at", "desc").orderBy("account.account_id", "desc").limit(limit);
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
            .selectFrom("api_key")
            .select((key) => key.fn.countAll<bigint>().as("keys"))
            .whereRef("api_key.account_id", "=", "account.account_id")
            .where("revoked_at", "is", null)
            .as("keys"),
          of
            .selectFrom("deployment")
            .select((one) => one.fn.countAll<bigint>().as("deployments"))
            .whereRef("deployment.account_id", "=", "account.account_id")
            .where("status", "<>", "deleted")
            .as("deployments"),
        ])
        .where("account.account_id", "=", account)
        .executeTakeFirst();
      return (
        row && {
          ...summaryOf(row),
          deletedAtMs: row.deleted_at?.getTime() ?? null,
          credited: row.lim === null ? null : nano(row.lim),
          keys: Number(row.keys),
          deployments: Number(row.deployments),
        }
      );
    },

    change: (account, wish, act) =>
      inTransaction(db, async (trx) => {
        await lockAdmins(trx);
        const row = await liveAccount(trx, account)
          .select(["is_admin", "is_team_account"])
          .forUpdate()
          .executeTakeFirst();
        if (!row) return "gone";
        const before = { is_admin: row.is_admin, is_team_account: row.is_team_account };
        const after = {
          is_admin: wish.isAdmin ?? row.is_admin,
          is_team_account: wish.isTeamAccount ?? row.is_team_account,
        };
        if (before.is_admin === after.is_admin && before.is_team_account === after.is_team_account) return "done";
        if (before.is_admin && !after.is_admin && !(await hasOtherAdmin(trx, account))) return "last_admin";
        await trx
          .updateTable("account")
          .set({ ...after, ...(after.is_team_account ? {} : { team_display_name: null }) })
          .where("account_id", "=", account)
          .execute();
        await writeAudit(trx, {
          actor: act.by,
          action: "account.change",
          subject: account,
          account,
          ip: act.ip,
          before,
          after,
          note: act.note,
        });
        await announce(trx, "account", account);
        return "done";
      }),
  });
}

function summaryOf(row: {
  account_id: string;
  email: string;
  display_name: string;
  is_admin: boolean;
  is_team_account: boolean;
  suspend_reason: string | null;
  created_at: Date;
  lim: bigint | null;
  spent: bigint | null;
}): AccountSummary {
  const spent = row.spent ?? 0n;
  return {
    account: row.account_id as AccountId,
    email: row.email,
    displayName: row.display_name,
    isAdmin: row.is_admin,
    isTeamAccount: row.is_team_account,
    suspendReason: row.suspend_reason as SuspendReason | null,
    createdAtMs: row.created_at.getTime(),
    funds: row.lim === null ? null : nano(row.lim - spent),
    spent: nano(spent),
  };
}
