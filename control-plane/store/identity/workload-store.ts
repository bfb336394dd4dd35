import type { AccountId, KeyId } from "../../../proto/ids.ts";
import type { WorkloadRule, WorkloadStore } from "../../identity/store.ts";
import { liveAccount, lockAccount } from "../accounts/account-rows.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { checkActor } from "../accounts/member-rows.ts";
import { lockProject } from "../accounts/project-store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { affectsRow, rowCount } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";

/** Columns of a WorkloadIdentity. */
const columns = [
  "ruleId as id",
  "workloadIdentity.accountId as account",
  "workloadIdentity.name",
  "issuer",
  "audience",
  "subject",
  "claims",
  "role",
  "allowedModels",
  "lifeSeconds",
  "workloadIdentity.memberId as member",
  "workloadIdentity.projectId as project",
  epochMs("workloadIdentity.createdAt").as("createdAtMs"),
  epochMs<null>("workloadIdentity.lastUsedAt").as("lastUsedAtMs"),
] as const;

export function createWorkloadStore(db: Db): WorkloadStore {
  const ofAccount = (account: AccountId) =>
    db.selectFrom("workloadIdentity").select(columns).where("accountId", "=", account);

  return asked<WorkloadStore>({
    list: (account) => ofAccount(account).orderBy("createdAt").orderBy("ruleId").execute(),
    get: (account, id) => ofAccount(account).where("ruleId", "=", id).executeTakeFirst(),
    find: (id) =>
      db
        .selectFrom("workloadIdentity")
        .innerJoin("account", "account.accountId", "workloadIdentity.accountId")
        .select(columns)
        .where("ruleId", "=", id)
        .where("deletedAt", "is", null)
        .executeTakeFirst(),

    async create(account, id, { claims, allowedModels, member, project, ...rule }, max, act) {
      try {
        return await inTransaction(db, async (trx) => {
          if (!(await lockAccount(trx, account))) return "account_gone";
          await checkActor(trx, account, act);
          const { count } = await trx
            .selectFrom("workloadIdentity")
            .select(rowCount)
            .where("accountId", "=", account)
            .executeTakeFirstOrThrow();
          if (count >= max) return "full";
          if (project !== null && !(await lockProject(trx, account, project))) return "project_gone";
          await trx
            .insertInto("workloadIdentity")
            .values({
              ruleId: id,
              accountId: account,
              memberId: member,
              projectId: project,
              createdBy: act.guard?.member ?? null,
              ...rule,
              claims: JSON.stringify(claims),
              allowedModels: allowedModels && [...allowedModels],
            })
            .execute();
          const after = audited({ ...rule, claims, allowedModels, member, project });
          await auditAct(trx, act, { action: "workload_identity.create", subject: id, account, after });
          return "done";
        });
      } catch (error) {
        if (uniqueViolation(error) === "workload_identity_name") return "name_taken";
        throw error;
      }
    },

    remove: (account, id, act) =>
      inTransaction(db, async (trx) => {
        await checkActor(trx, account, act);
        const row = await trx
          .selectFrom("workloadIdentity")
          .select(columns)
          .where("accountId", "=", account)
          .where("ruleId", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!row) return undefined;
        const keys = await revokeKeys(trx, id, undefined);
        await trx.deleteFrom("workloadIdentity").where("ruleId", "=", id).execute();
        await auditAct(trx, act, {
          action: "workload_identity.delete",
          subject: id,
          account,
          before: audited(row),
          after: { keys_revoked: keys.length },
        });
        await announce(trx, "key", ...keys);
        return row;
      }),

    begin: ({ id, rule, tokenHash, tokenExpiresAtMs, expiresAtMs }, limits, nowMs) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom("workloadIdentity")
          .select("accountId")
          .where("ruleId", "=", rule)
          .forNoKeyUpdate()
          .executeTakeFirst();
        if (!row || !(await liveAccount(trx, row.accountId).select("accountId").executeTakeFirst())) return "gone";
        const used = await trx
          .selectFrom("workloadExchange")
          .select(rowCount)
          .where("tokenHash", "=", tokenHash)
          .where("ruleId", "=", rule)
          .executeTakeFirstOrThrow();
        if (used.count >= limits.perToken) return "replayed";
        const live = await trx
          .selectFrom("workloadExchange")
          .select(rowCount)
          .where("ruleId", "=", rule)
          .where("expiresAt", ">", new Date(nowMs))
          .executeTakeFirstOrThrow();
        if (live.count >= limits.live) return "full";
        // Expired keys are refused already; revoked ones are listed no more.
        await revokeKeys(trx, rule, new Date(nowMs));
        await trx
          .insertInto("workloadExchange")
          .values({
            exchangeId: id,
            ruleId: rule,
            tokenId: null,
            tokenHash,
            tokenExpiresAt: new Date(tokenExpiresAtMs),
            expiresAt: new Date(expiresAtMs),
          })
          .execute();
        await trx.updateTable("workloadIdentity").set({ lastUsedAt: now }).where("ruleId", "=", rule).execute();
        return "done";
      }),

    finish: (exchange, key) =>
      db.updateTable("workloadExchange").set({ tokenId: key }).where("exchangeId", "=", exchange).$call(affectsRow),
  });
}

/** `before`: only those that have expired by then. */
async function revokeKeys(trx: Trx, rule: string, before: Date | undefined): Promise<readonly KeyId[]> {
  const rows = await trx
    .updateTable("apiKey")
    .set({ revokedAt: now })
    .where("revokedAt", "is", null)
    .where("tokenId", "in", (of) =>
      of
        .selectFrom("workloadExchange")
        .select((row) => row.ref("tokenId").$notNull().as("tokenId"))
        .where("ruleId", "=", rule)
        .where("tokenId", "is not", null)
        .$if(before !== undefined, (expired) => expired.where("expiresAt", "<=", before as Date)),
    )
    .returning("tokenId")
    .execute();
  return rows.map(({ tokenId }) => tokenId);
}

const audited = (rule: WorkloadRule) => ({
  name: rule.name,
  issuer: rule.issuer,
  audience: rule.audience,
  subject: rule.subject,
  claims: rule.claims,
  role: rule.role,
  allowed_models: rule.allowedModels,
  life_seconds: rule.lifeSeconds,
  ...(rule.member === null ? {} : { member: rule.member }),
  ...(rule.project === null ? {} : { project: rule.project }),
});
