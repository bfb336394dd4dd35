import { sql } from "kysely";
import type { AccountId, BudgetId, KeyId, ProjectId } from "../../../proto/ids.ts";
import type { Act } from "../../act.ts";
import type { LimitStore } from "../../billing/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";

export function createLimitStore(db: Db): LimitStore {
  return asked<LimitStore>({
    async accountLimit(account) {
      const row = await db
        .selectFrom("account")
        .select("monthlyLimit")
        .where("accountId", "=", account)
        .executeTakeFirst();
      return row?.monthlyLimit ?? null;
    },

    async keyLimits(account, monthOf) {
      const keys = await db
        .selectFrom("apiKey")
        .select(["tokenId", "name", "monthlyLimit"])
        .where("accountId", "=", account)
        .where("revokedAt", "is", null)
        .orderBy("createdAt")
        .execute();
      const ids = keys.map((row) => monthOf(row.tokenId));
      const budgets =
        ids.length === 0
          ? []
          : await db.selectFrom("budget").select(["budgetId", "spent"]).where("budgetId", "in", ids).execute();
      const spent = new Map(budgets.map((row) => [row.budgetId, row.spent]));
      return keys.map((row) => {
        const key = row.tokenId;
        return { key, name: row.name, limit: row.monthlyLimit, spent: spent.get(monthOf(key)) ?? 0n };
      });
    },

    setLimit: (owner, limit, month, by) =>
      inTransaction(db, async (trx) => {
        const { account, key } = owner;
        if (!(await setMonthlyLimit(trx, owner, limit, month, by))) return false;
        await announce(trx, "limit", account);
        // The cached credentials contain whether there is a limit.
        await announce(trx, key === undefined ? "account" : "key", key ?? account);
        return true;
      }),
  });
}

/** The account, or one of its keys or projects. */
interface LimitOwner {
  readonly account: AccountId;
  readonly key?: KeyId;
  readonly project?: ProjectId;
}

/**
 * Sets what the account, or one of its keys or projects, may spend per UTC month, and audits the change; null: no limit, 0 blocks. `month`: the
 * present month's budget (billing/scopes.ts).
 * False when there is no such account, live key or project. The caller's last statements announce `limit` with the answered account's
 * id (held slices go back) and `account` or `key` (cached data of the credential is read again).
 */
export async function setMonthlyLimit(
  trx: Trx,
  owner: LimitOwner,
  limit: bigint | null,
  month: BudgetId,
  by: Act,
): Promise<boolean> {
  const { account, key, project } = owner;
  if (!(await lockAccount(trx, account, "forUpdate"))) return false;
  const before = await writeLimit(trx, owner, limit);
  if (!before) return false;
  await auditAct(trx, by, {
    action: "limit.change",
    subject: key ?? project ?? account,
    account,
    before: { monthly_limit: before.monthlyLimit?.toString() ?? null },
    after: { monthly_limit: limit?.toString() ?? null },
  });
  const scope = key !== undefined ? "key_month" : project !== undefined ? "project_month" : "account_month";
  await trx
    .insertInto("budget")
    .values({ budgetId: month, scope, accountId: account })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  // The next month's row may be there already. A month is the last six digits.
  await sql`update budget set lim = ${limit?.toString() ?? null}::bigint
    where account_id = ${account} and starts_with(budget_id, ${month.slice(0, -6)}) and budget_id >= ${month}`.execute(
    trx,
  );
  return true;
}

/** Returns the row before; undefined when it does not exist or has ended. */
async function writeLimit(
  trx: Trx,
  { account, key, project }: LimitOwner,
  monthlyLimit: bigint | null,
): Promise<{ readonly monthlyLimit: bigint | null } | undefined> {
  if (key !== undefined) {
    const ofKey = trx.selectFrom("apiKey").select("monthlyLimit").where("tokenId", "=", key);
    const before = await ofKey
      .where("accountId", "=", account)
      .where("revokedAt", "is", null)
      .forUpdate()
      .executeTakeFirst();
    if (before) await trx.updateTable("apiKey").set({ monthlyLimit }).where("tokenId", "=", key).execute();
    return before;
  }
  if (project !== undefined) {
    const ofProject = trx.selectFrom("project").select("monthlyLimit").where("projectId", "=", project);
    const before = await ofProject
      .where("accountId", "=", account)
      .where("endedAt", "is", null)
      .forUpdate()
      .executeTakeFirst();
    if (before) await trx.updateTable("project").set({ monthlyLimit }).where("projectId", "=", project).execute();
    return before;
  }
  const before = await trx
    .selectFrom("account")
    .select("monthlyLimit")
    .where("accountId", "=", account)
    .executeTakeFirst();
  if (before) await trx.updateTable("account").set({ monthlyLimit }).where("accountId", "=", account).execute();
  return before;
}
