import { type Kysely, sql } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import type { Actor, SessionStore } from "../accounts/store.ts";
import { liveAccount } from "./account-rows.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { inTransaction } from "./database.ts";
import { accountColumns, accountOf } from "./key-rows.ts";
import type { Database } from "./schema.ts";

export function createSessionStore(db: Kysely<Database>): SessionStore {
  return asked<SessionStore>({
    async credentials(email) {
      const row = await db
        .selectFrom("account")
        .leftJoin("password", "password.account_id", "account.account_id")
        .select(["account.account_id", "hash"])
        .where(sql<boolean>`lower(email) = lower(${email})`)
        .where("deleted_at", "is", null)
        .executeTakeFirst();
      return row && { account: row.account_id as AccountId, hash: row.hash ?? undefined };
    },

    async passwordOf(account) {
      const row = await db.selectFrom("password").select("hash").where("account_id", "=", account).executeTakeFirst();
      return row?.hash;
    },

    setPassword: (actor, hash, keep) =>
      inTransaction(db, async (trx) => {
        const live = await liveAccount(trx, actor.account).select("account_id").forUpdate().executeTakeFirst();
        if (!live) return false;
        await trx
          .insertInto("password")
          .values({ account_id: actor.account, hash })
          .onConflict((conflict) => conflict.column("account_id").doUpdateSet({ hash, changed_at: sql<Date>`now()` }))
          .execute();
        const ended = await trx
          .deleteFrom("login_session")
          .where("account_id", "=", actor.account)
          .$if(keep !== undefined, (others) => others.where("lookup", "<>", keep as Buffer))
          .executeTakeFirst();
        await auditOwn(trx, actor, "password.set", { sessions_ended: Number(ended.numDeletedRows) });
        return true;
      }),

    openSession: (actor, session) =>
      inTransaction(db, async (trx) => {
        const account = await liveAccount(trx, actor.account)
          .select(accountColumns)
          .forShare()
          .executeTakeFirstOrThrow();
        const began = new Date(session.beganAtMs);
        await trx
          .insertInto("login_session")
          .values({
            lookup: session.lookup,
            account_id: actor.account,
            created_at: began,
            seen_at: began,
            expires_at: new Date(session.endsAtMs),
          })
          .execute();
        await auditOwn(trx, actor, "session.begin", null);
        return accountOf(account);
      }),

    async session(lookup) {
      const row = await db
        .selectFrom("login_session")
        .innerJoin("account", "account.account_id", "login_session.account_id")
        .select([...accountColumns, "login_session.created_at as began_at", "seen_at", "expires_at"])
        .where("lookup", "=", lookup)
        .where("deleted_at", "is", null)
        .executeTakeFirst();
      return (
        row && {
          account: accountOf(row),
          beganAtMs: row.began_at.getTime(),
          seenAtMs: row.seen_at.getTime(),
          endsAtMs: row.expires_at.getTime(),
        }
      );
    },

    async touchSession(lookup, seenAtMs, endsAtMs) {
      await db
        .updateTable("login_session")
        .set({ seen_at: new Date(seenAtMs), expires_at: new Date(endsAtMs) })
        .where("lookup", "=", lookup)
        .where("seen_at", "<", new Date(seenAtMs))
        .execute();
    },

    async endSession(lookup) {
      await db.deleteFrom("login_session").where("lookup", "=", lookup).execute();
    },
  });
}

function auditOwn(trx: Parameters<typeof writeAudit>[0], actor: Actor, action: string, after: unknown): Promise<void> {
  const { account, ip } = actor;
  return writeAudit(trx, { actor: account, action, subject: account, account, ip, after });
}
