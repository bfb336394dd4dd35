import { sql } from "kysely";
import type { AccountId, ProjectId } from "../../../proto/ids.ts";
import type { ProjectStore } from "../../accounts/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { findsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { setMonthlyLimit } from "../money/limit-store.ts";
import { lockAccount } from "./account-rows.ts";
import { auditAct } from "./audit-rows.ts";
import { checkActor } from "./member-rows.ts";

/** Locks a project until the commit; false when there is none. */
export const lockProject = (trx: Trx, account: AccountId, id: ProjectId): Promise<boolean> =>
  live(trx, account).select("projectId").where("projectId", "=", id).forShare().$call(findsRow);

/** False if one of them does not exist. */
export async function lockProjects(trx: Trx, account: AccountId, ids: readonly ProjectId[]): Promise<boolean> {
  for (const id of [...ids].sort()) if (!(await lockProject(trx, account, id))) return false;
  return true;
}

const live = (db: Db | Trx, account: AccountId) =>
  db.selectFrom("project").where("accountId", "=", account).where("endedAt", "is", null);

export function createProjectStore(db: Db): ProjectStore {
  return asked<ProjectStore>({
    async projects(account, monthOf) {
      const rows = await live(db, account)
        .select(["projectId as project", "name", "monthlyLimit", epochMs("createdAt").as("createdAtMs")])
        .select((row) =>
          row
            .selectFrom("apiKey")
            .select(sql<number>`count(*)::int`.as("count"))
            .whereRef("apiKey.projectId", "=", "project.projectId")
            .where("revokedAt", "is", null)
            .as("keyCount"),
        )
        .orderBy("createdAt")
        .orderBy("projectId")
        .execute();
      if (rows.length === 0) return [];
      const budgets = await db
        .selectFrom("budget")
        .select(["budgetId", "spent"])
        .where(
          "budgetId",
          "in",
          rows.map(({ project }) => monthOf(project)),
        )
        .execute();
      const spent = new Map(budgets.map((row) => [row.budgetId, row.spent]));
      return rows.map((row) => ({ ...row, keyCount: row.keyCount ?? 0, spent: spent.get(monthOf(row.project)) ?? 0n }));
    },

    async createProject(account, { id, name }, { limit, month }, maxCount, act) {
      try {
        return await inTransaction(db, async (trx) => {
          if (!(await lockAccount(trx, account, "forUpdate"))) return "gone";
          await checkActor(trx, account, act);
          const { count } = await live(trx, account)
            .select(sql<number>`count(*)::int`.as("count"))
            .executeTakeFirstOrThrow();
          if (count >= maxCount) return "too_many";
          await trx.insertInto("project").values({ projectId: id, accountId: account, name }).execute();
          await auditAct(trx, act, { action: "project.create", subject: id, account, after: { name } });
          if (limit !== null) await setMonthlyLimit(trx, { account, project: id }, limit, month, act);
          return "done";
        });
      } catch (error) {
        return nameTaken(error);
      }
    },

    async changeProject(account, id, { name, limit }, act) {
      try {
        return await inTransaction(db, async (trx) => {
          if (!(await lockAccount(trx, account, "forUpdate"))) return "gone";
          await checkActor(trx, account, act);
          const before = await live(trx, account)
            .select("name")
            .where("projectId", "=", id)
            .forUpdate()
            .executeTakeFirst();
          if (!before) return "gone";
          if (name !== undefined) {
            await trx.updateTable("project").set({ name }).where("projectId", "=", id).execute();
            await auditAct(trx, act, { action: "project.change", subject: id, account, before, after: { name } });
          }
          if (limit) {
            await setMonthlyLimit(trx, { account, project: id }, limit.limit, limit.month, act);
            await announce(trx, "limit", account);
          }
          return "done";
        });
      } catch (error) {
        return nameTaken(error);
      }
    },

    endProject: (account, id, act) =>
      inTransaction(db, async (trx) => {
        await checkActor(trx, account, act);
        const before = await live(trx, account)
          .select("name")
          .where("projectId", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!before) return "gone";
        const keys = trx
          .selectFrom("apiKey")
          .select("tokenId")
          .where("projectId", "=", id)
          .where("revokedAt", "is", null);
        // Before the members that come by them.
        const invitations = trx
          .selectFrom("invitation")
          .select("invitationId")
          .where("accountId", "=", account)
          .where("expiresAt", ">", now)
          .where(sql<boolean>`${id} = any (project_ids)`);
        const providers = trx
          .selectFrom("identityProvider")
          .select("providerId")
          .where("organizationId", "=", account)
          .where(
            sql<boolean>`(${id} = any (default_project_ids) or exists (
              select from jsonb_each(projects_of_group) g where g.value @> to_jsonb(${id}::text)))`,
          );
        const members = trx
          .selectFrom("member")
          .select("memberId")
          .where("accountId", "=", account)
          .where(sql<boolean>`${id} = any (project_ids)`);
        const rules = trx.selectFrom("workloadIdentity").select("ruleId").where("projectId", "=", id);
        if (
          (await keys.limit(1).$call(findsRow)) ||
          (await invitations.limit(1).$call(findsRow)) ||
          (await providers.limit(1).$call(findsRow)) ||
          (await members.limit(1).$call(findsRow)) ||
          (await rules.limit(1).$call(findsRow))
        )
          return "has_keys";
        await trx.updateTable("project").set({ endedAt: now }).where("projectId", "=", id).execute();
        await auditAct(trx, act, { action: "project.delete", subject: id, account, before });
        return "done";
      }),
  });
}

function nameTaken(error: unknown): "name_taken" {
  if (uniqueViolation(error) === "project_live_name") return "name_taken";
  throw error;
}
