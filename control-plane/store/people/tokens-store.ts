import type { AccountId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { TokenStore } from "../../accounts/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { keyOf, lockAccount, signingKeyRows } from "./account-rows.ts";
import { auditAct } from "./audit-rows.ts";

/** Columns of a KeyRecord. */
const recordColumns = [
  "tokenId as key",
  "name",
  "fragment",
  "allowedIps",
  epochMs("createdAt").as("createdAtMs"),
  epochMs<null>("lastUsedAt").as("lastUsedAtMs"),
] as const;

export function createTokenStore(db: Db): TokenStore {
  const records = (account: AccountId) =>
    db.selectFrom("apiKey").select(recordColumns).where("accountId", "=", account).where("revokedAt", "is", null);

  return asked<TokenStore>({
    async createKey(account, { key: id, ...key }, act) {
      try {
        return await inTransaction(db, async (trx) => {
          // Locked until commit: an account that is being deleted must not get a key after its keys were revoked.
          if (!(await lockAccount(trx, account, "forShare"))) return "account_gone";
          const row = await trx
            .insertInto("apiKey")
            .values({ tokenId: id, accountId: account, ...key, allowedIps: key.allowedIps && [...key.allowedIps] })
            .returning(recordColumns)
            .executeTakeFirstOrThrow();
          await auditAct(trx, act, {
            action: "key.create",
            subject: id,
            account,
            after: { name: key.name, allowed_ips: key.allowedIps },
          });
          await announce(trx, "key", id);
          return row;
        });
      } catch (error) {
        if (uniqueViolation(error) === "api_key_live_name") return "name_taken";
        throw error;
      }
    },

    keys: (account) => records(account).orderBy("createdAt").orderBy("tokenId").execute(),

    keyRecord: (account, key) => records(account).where("tokenId", "=", key).executeTakeFirst(),

    setAllowedIps: (account, key, allowedIps, act) =>
      inTransaction(db, async (trx) => {
        const before = await trx
          .selectFrom("apiKey")
          .select(["name", "allowedIps"])
          .where("accountId", "=", account)
          .where("tokenId", "=", key)
          .where("revokedAt", "is", null)
          .forUpdate()
          .executeTakeFirst();
        if (!before) return undefined;
        const row = await trx
          .updateTable("apiKey")
          .set({ allowedIps: allowedIps && [...allowedIps] })
          .where("tokenId", "=", key)
          .returning(recordColumns)
          .executeTakeFirstOrThrow();
        await auditAct(trx, act, {
          action: "key.change",
          subject: key,
          account,
          before: { name: before.name, allowed_ips: before.allowedIps },
          after: { name: before.name, allowed_ips: allowedIps },
        });
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
          before: { name: row.name, allowed_ips: row.allowedIps },
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
