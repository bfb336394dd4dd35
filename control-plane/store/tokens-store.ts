import { type Kysely, type Selectable, sql } from "kysely";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import type { KeyRecord, TokenStore } from "../accounts/store.ts";
import { liveAccount } from "./account-rows.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction, uniqueViolation } from "./database.ts";
import { signingKeyOf, signingKeyRows } from "./key-rows.ts";
import type { Database } from "./schema.ts";

const recordColumns = ["token_id", "name", "fragment", "allowed_ips", "created_at", "last_used_at"] as const;

export function createTokenStore(db: Kysely<Database>): TokenStore {
  const records = (account: AccountId) =>
    db.selectFrom("api_key").select(recordColumns).where("account_id", "=", account).where("revoked_at", "is", null);

  return asked<TokenStore>({
    async createKey(account, key, act) {
      try {
        return await inTransaction(db, async (trx) => {
          // Held to the end: an account that is being deleted gets no key after its keys were ended.
          const live = await liveAccount(trx, account).select("account_id").forShare().executeTakeFirst();
          if (!live) return "account_gone";
          const row = await trx
            .insertInto("api_key")
            .values({
              token_id: key.key,
              account_id: account,
              name: key.name,
              lookup: key.lookup,
              ciphertext: key.ciphertext,
              fragment: key.fragment,
              allowed_ips: key.allowedIps && [...key.allowedIps],
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
      return (await records(account).orderBy("created_at").orderBy("token_id").execute()).map(recordOf);
    },

    async keyRecord(account, key) {
      const row = await records(account).where("token_id", "=", key).executeTakeFirst();
      return row && recordOf(row);
    },

    setAllowedIps: (account, key, allowedIps, act) =>
      inTransaction(db, async (trx) => {
        const before = await trx
          .selectFrom("api_key")
          .select(["name", "allowed_ips"])
          .where("account_id", "=", account)
          .where("token_id", "=", key)
          .where("revoked_at", "is", null)
          .forUpdate()
          .executeTakeFirst();
        if (!before) return undefined;
        const row = await trx
          .updateTable("api_key")
          .set({ allowed_ips: allowedIps && [...allowedIps] })
          .where("token_id", "=", key)
          .returning(recordColumns)
          .executeTakeFirstOrThrow();
        await writeAudit(trx, {
          actor: act.by,
          action: "key.change",
          subject: key,
          account,
          ip: act.ip,
          note: act.note,
          before: { name: before.name, allowed_ips: before.allowed_ips },
          after: { name: before.name, allowed_ips: allowedIps },
        });
        await announce(trx, "key", key);
        return recordOf(row);
      }),

    revokeKey: (account, key, act) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .updateTable("api_key")
          .set({ revoked_at: sql<Date>`now()` })
          .where("account_id", "=", account)
          .where("token_id", "=", key)
          .where("revoked_at", "is", null)
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
          before: { name: row.name, allowed_ips: row.allowed_ips },
        });
        await announce(trx, "key", key);
        return recordOf(row);
      }),

    findSealedKey: async (account, key) =>
      signingKeyOf(
        await signingKeyRows(db)
          .where("account.account_id", "=", account)
          .where("token_id", "=", key)
          .executeTakeFirst(),
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
        .where("budget_id", "=", budget)
        .where("account_id", "=", account)
        .executeTakeFirst();
      return nano(row?.spent ?? 0n);
    },
  });
}

type Row = Pick<Selectable<Database["api_key"]>, (typeof recordColumns)[number]>;

const recordOf = (row: Row): KeyRecord => ({
  key: row.token_id as KeyId,
  name: row.name,
  fragment: row.fragment,
  allowedIps: row.allowed_ips,
  createdAtMs: row.created_at.getTime(),
  lastUsedAtMs: row.last_used_at?.getTime() ?? null,
});
