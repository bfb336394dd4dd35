import type { AccountId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { KeyRules, TokenStore } from "../../accounts/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { findsRow } from "../core/rows.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { setMonthlyLimit } from "../money/limit-store.ts";
import { isDeprovisioned, keyOf, liveAccount, lockAccount, ruleColumns, signingKeyRows } from "./account-rows.ts";
import { auditAct } from "./audit-rows.ts";
import { checkActor, keyManagers, lockMember } from "./member-rows.ts";
import { lockProject } from "./project-store.ts";

/** Columns of a KeyRecord. */
const recordColumns = [
  "tokenId as key",
  "name",
  "fragment",
  "monthlyLimit",
  "memberId",
  "projectId",
  ...ruleColumns,
  epochMs("createdAt").as("createdAtMs"),
  epochMs<null>("lastUsedAt").as("lastUsedAtMs"),
] as const;

export function createTokenStore(db: Db): TokenStore {
  const records = (account: AccountId) =>
    db.selectFrom("apiKey").select(recordColumns).where("accountId", "=", account).where("revokedAt", "is", null);

  return asked<TokenStore>({
    async createKey(account, { key: id, ...key }, rules, budget, act, { member, project: given }) {
      try {
        return await inTransaction(db, async (trx) => {
          // Locked until commit: an account that is being deleted must not get a key after its keys were revoked.
          if (!(await lockAccount(trx, account, budget ? "forUpdate" : "forShare"))) return "account_gone";
          const actor = await checkActor(trx, account, act);
          // Read once the account is locked: its provider may have deactivated it in the meantime.
          if (await liveAccount(trx, account).select("accountId").where(isDeprovisioned).$call(findsRow))
            return "account_gone";
          const holder = member === null ? undefined : await lockMember(trx, account, member);
          if (member !== null && !holder) return "member_gone";
          const { projectIds: allowed = [] } = holder ?? {};
          const project = given ?? allowed[0] ?? null;
          const isChosenFreely = actor === undefined || keyManagers.includes(actor) || allowed.length === 0;
          if (project !== null && !isChosenFreely && !allowed.includes(project)) return { allowed };
          if (project !== null && !(await lockProject(trx, account, project))) return "project_gone";
          const row = await trx
            .insertInto("apiKey")
            .values({
              tokenId: id,
              accountId: account,
              ...key,
              ...ruleValues(rules),
              memberId: member,
              projectId: project,
            })
            .returning(recordColumns)
            .executeTakeFirstOrThrow();
          await auditAct(trx, act, {
            action: "key.create",
            subject: id,
            account,
            after: {
              name: key.name,
              ...audited(row),
              ...(member === null ? {} : { member }),
              ...(project === null ? {} : { project }),
            },
          });
          if (budget) await setMonthlyLimit(trx, { account, key: id }, budget.limit, budget.month, act);
          await announce(trx, "key", id);
          return budget ? { ...row, monthlyLimit: budget.limit } : row;
        });
      } catch (error) {
        if (uniqueViolation(error) === "api_key_live_name") return "name_taken";
        throw error;
      }
    },

    keys: (account) => records(account).orderBy("createdAt").orderBy("tokenId").execute(),

    keyRecord: (account, key) => records(account).where("tokenId", "=", key).executeTakeFirst(),

    changeKey: (account, key, change, budget, act, check) =>
      inTransaction(db, async (trx) => {
        // The account is locked before its keys, as wherever limits change.
        if (budget && !(await lockAccount(trx, account, "forUpdate"))) return undefined;
        const before = await trx
          .selectFrom("apiKey")
          .select(["name", ...ruleColumns])
          .where("accountId", "=", account)
          .where("tokenId", "=", key)
          .where("revokedAt", "is", null)
          .forUpdate()
          .executeTakeFirst();
        if (!before) return undefined;
        check?.(before);
        if (budget) await setMonthlyLimit(trx, { account, key }, budget.limit, budget.month, act);
        const row = await trx
          .updateTable("apiKey")
          // Always sets a column: a change may be of the limit only.
          .set({ tokenId: key, ...ruleValues(change) })
          .where("tokenId", "=", key)
          .returning(recordColumns)
          .executeTakeFirstOrThrow();
        if (Object.keys(change).length > 0)
          await auditAct(trx, act, {
            action: "key.change",
            subject: key,
            account,
            before: { name: before.name, ...audited(before) },
            after: { name: row.name, ...audited(row) },
          });
        if (budget) await announce(trx, "limit", account);
        await announce(trx, "key", key);
        return row;
      }),

    revokeKey: (account, key, act) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .updateTable("apiKey")
          .set({ revokedAt: now })
          .where("accountId", "=", account)
          .where("tokenId", "=", key)
          .where("revokedAt", "is", null)
          .returning(recordColumns)
          .executeTakeFirst();
        if (!row) return undefined;
        await auditAct(trx, act, {
          action: "key.revoke",
          subject: key,
          account,
          before: { name: row.name, ...audited(row) },
        });
        await announce(trx, "key", key);
        return row;
      }),

    async findSealedKey(account, key) {
      const rows = signingKeyRows(db).where("account.accountId", "=", account).where("tokenId", "=", key);
      const row = await rows.executeTakeFirst();
      return row && keyOf(row);
    },

    noteMint: (mint, act) =>
      inTransaction(db, (trx) =>
        auditAct(trx, act, {
          action: "jwt.mint",
          subject: mint.key,
          account: mint.account,
          after: {
            budget: mint.budget,
            expires_at: mint.expiresAtS,
            models: mint.models,
            limit_nano_usd: mint.limit === null ? null : String(mint.limit),
          },
        }),
      ),

    async spentOf(account, budget) {
      const row = await db
        .selectFrom("budget")
        .select("spent")
        .where("budgetId", "=", budget)
        .where("accountId", "=", account)
        .executeTakeFirst();
      return nano(row?.spent ?? 0n);
    },
  });
}

/** Columns of the given rules. */
function ruleValues({ expiresAtMs, allowedIps, allowedModels, ...plain }: Partial<KeyRules>) {
  return {
    ...plain,
    ...(allowedIps === undefined ? {} : { allowedIps: allowedIps && [...allowedIps] }),
    ...(allowedModels === undefined ? {} : { allowedModels: allowedModels && [...allowedModels] }),
    ...(expiresAtMs === undefined ? {} : { expiresAt: expiresAtMs === null ? null : new Date(expiresAtMs) }),
  };
}

/** Without the monthly limit, whose changes are audited as `limit.change`. */
const audited = (rules: KeyRules) => ({
  allowed_ips: rules.allowedIps,
  allowed_models: rules.allowedModels,
  expires_at: rules.expiresAtMs === null ? null : new Date(rules.expiresAtMs).toISOString(),
  requests_per_minute: rules.requestsPerMinute,
  tokens_per_minute: rules.tokensPerMinute,
  role: rules.role,
  trusts_user_headers: rules.trustsUserHeaders,
});
