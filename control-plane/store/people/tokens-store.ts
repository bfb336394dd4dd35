import { type Kysely, type Selectable, sql } from "kysely";
import type { AccountId, KeyId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { KeyRecord, TokenStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { liveAccount } from "./account-rows.ts";
import { writeAudit } from "./audit-rows.ts";
import { signingKeyOf, signingKeyRows } from "./key-rows.ts";

const recordColumns = ["tokenId", "name", "fragment", "allowedIps", "createdAt", "lastUsedAt"] as const;

export function createTokenStore(db: Kysely<Database>): TokenStore {
  const records = (account: AccountId) =>
    db.selectFrom("apiKey").select(recordColumns).where("accountId", "=", account).where("revokedAt", "is", null);

  return asked<TokenStore>({
    async createKey(account, key, act) {
      try {
        return await inTransaction(db, async (trx) => {
          // Held to the end: an account that is being deleted gets no key after its keys were ended.
          const live = await liveAccount(trx, account).select("accountId").forShare().executeTakeFirst();
          if (!live) return "account_gone";
          const row = await trx
            .insertInto("apiKey")
            .values({
              tokenId: key.key,
              accountId: account,
              name: key.name,
              lookup: key.lookup,
              ciphertext: key.ciphertext,
              fragment: key.fragment,
              allowedIps: key.allowedIps && [...key.allowedIps],
            })
            .returning(recordColumns)
            .executeTakeFirstOrThrow();
          await writeAudit(trx, {
            actor: act.by,
            action: "key.create",
            subject: key.key,
            account,
            ip: act.ip,
            note: act.note,
            after: { name: key.name, allowed_ips: key.allowedIps },
          });
          await announce(trx, "key", key.key);
          return recordOf(row);
        });
      } catch (error) {
        if (uniqueViolation(error) === "api_key_live_name") return "name_taken";
        throw error;
      }
    },

    async keys(account) {
      return (await records(account).orderBy("createdAt").orderBy("tokenId").execute()).map(recordOf);
    },

    async keyRecord(account, key) {
      const row = await records(account).where("tokenId", "=", key).executeTakeFirst();
      return row && recordOf(row);
    },

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
        await writeAudit(trx, {
          actor: act.by,
          action: "key.change",
          subject: key,
          account,
          ip: act.ip,
          note: act.note,
          before: { name: before.name, allowed_ips: before.allowedIps },
          after: { name: before.name, allowed_ips: allowedIps },
        });
        await announce(trx, "key", key);
        return recordOf(row);
      }),

    revokeKey: (account, key, act) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .updateTable("apiKey")
          .set({ revokedAt: sql<Date>`now()` })
          .where("accountId", "=", account)
          .where("tokenId", "=", key)
          .where("revokedAt", "is", null)
          .returning(recordColumns)
          .executeTakeFirst();
        if (!row) return undefined;
        await writeAudit(trx, {
          actor: act.by,
          action: "key.revoke",
          subject: key,
          account,
          ip: act.ip,
          note: act.note,
          before: { name: row.name, allowed_ips: row.allowedIps },
        });
        await announce(trx, "key", key);
        return recordOf(row);
      }),

    findSealedKey: async (account, key) =>
      signingKeyOf(
        await signingKeyRows(db).where("account.accountId", "=", account).where("tokenId", "=", key).executeTakeFirst(),
      ),

    noteMint: (mint, act) =>
      inTransaction(db, (trx) =>
        writeAudit(trx, {
          actor: act.by,
          action: "jwt.mint",
          subject: mint.key,
          account: mint.account,
          ip: act.ip,
          note: act.note,
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

type Row = Pick<Selectable<Database["apiKey"]>, (typeof recordColumns)[number]>;

const recordOf = (row: Row): KeyRecord => ({
  key: row.tokenId as KeyId,
  name: row.name,
  fragment: row.fragment,
  allowedIps: row.allowedIps,
  createdAtMs: row.createdAt.getTime(),
  lastUsedAtMs: row.lastUsedAt?.getTime() ?? null,
});
