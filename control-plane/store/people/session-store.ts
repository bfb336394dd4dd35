import { type Kysely, sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { SessionFactor, SessionStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { liveAccount, mustHaveFactor } from "./account-rows.ts";
import { auditOwn } from "./audit-rows.ts";
import { accountColumns, accountOf } from "./key-rows.ts";

const hasFactor = sql<boolean>`exists (select 1 from second_factor f where f.account_id = account.account_id)`;
/** Whether the operator requires a second factor of the account, and it has none. */
const mustEnrol = sql<boolean>`${mustHaveFactor} and not ${hasFactor}`.as("mustEnrol");

export function createSessionStore(db: Kysely<Database>): SessionStore {
  return asked<SessionStore>({
    async credentials(email) {
      const row = await db
        .selectFrom("account")
        .leftJoin("password", "password.accountId", "account.accountId")
        .select(["account.accountId", "hash"])
        .where(sql<boolean>`lower(email) = lower(${email})`)
        .where("deletedAt", "is", null)
        .executeTakeFirst();
      return row && { account: row.accountId as AccountId, hash: row.hash ?? undefined };
    },

    async passwordOf(account) {
      const row = await db.selectFrom("password").select("hash").where("accountId", "=", account).executeTakeFirst();
      return row?.hash;
    },

    async nameOf(account) {
      const row = await db
        .selectFrom("account")
        .select(["email", "displayName"])
        .where("accountId", "=", account)
        .where("deletedAt", "is", null)
        .executeTakeFirst();
      return row && { email: row.email, displayName: row.displayName };
    },

    setPassword: (actor, hash, keep) =>
      inTransaction(db, async (trx) => {
        const live = await liveAccount(trx, actor.account).select("accountId").forUpdate().executeTakeFirst();
        if (!live) return false;
        await trx
          .insertInto("password")
          .values({ accountId: actor.account, hash })
          .onConflict((conflict) => conflict.column("accountId").doUpdateSet({ hash, changedAt: sql<Date>`now()` }))
          .execute();
        const ended = await trx
          .deleteFrom("loginSession")
          .where("accountId", "=", actor.account)
          .$if(keep !== undefined, (others) => others.where("lookup", "<>", keep as Buffer))
          .executeTakeFirst();
        await auditOwn(trx, actor, "password.set", { after: { sessions_ended: Number(ended.numDeletedRows) } });
        return true;
      }),

    openSession: (actor, session) =>
      inTransaction(db, async (trx) => {
        const account = await liveAccount(trx, actor.account)
          .select([...accountColumns, mustEnrol, hasFactor.as("hasFactor")])
          .forShare()
          .executeTakeFirstOrThrow();
        if (account.hasFactor && session.factors.every((factor) => factor === "password")) return undefined;
        const began = new Date(session.beganAtMs);
        await trx
          .insertInto("loginSession")
          .values({
            lookup: session.lookup,
            accountId: actor.account,
            createdAt: began,
            seenAt: began,
            expiresAt: new Date(session.endsAtMs),
            factors: [...session.factors],
          })
          .execute();
        await auditOwn(trx, actor, "session.begin", { after: { factors: session.factors } });
        return { account: accountOf(account), mustEnrol: account.mustEnrol };
      }),

    async session(lookup) {
      const row = await db
        .selectFrom("loginSession")
        .innerJoin("account", "account.accountId", "loginSession.accountId")
        .select([...accountColumns, "loginSession.createdAt as beganAt", "seenAt", "expiresAt", "factors", mustEnrol])
        .where("lookup", "=", lookup)
        .where("deletedAt", "is", null)
        .executeTakeFirst();
      return (
        row && {
          account: accountOf(row),
          beganAtMs: row.beganAt.getTime(),
          seenAtMs: row.seenAt.getTime(),
          endsAtMs: row.expiresAt.getTime(),
          factors: row.factors as SessionFactor[],
          mustEnrol: row.mustEnrol,
        }
      );
    },

    async touchSession(lookup, seenAtMs, endsAtMs) {
      await db
        .updateTable("loginSession")
        .set({ seenAt: new Date(seenAtMs), expiresAt: new Date(endsAtMs) })
        .where("lookup", "=", lookup)
        .where("seenAt", "<", new Date(seenAtMs))
        .execute();
    },

    endSession: (lookup, ip) =>
      inTransaction(db, async (trx) => {
        const ended = await trx
          .deleteFrom("loginSession")
          .where("lookup", "=", lookup)
          .returning("accountId")
          .executeTakeFirst();
        if (!ended || ip === undefined) return;
        await auditOwn(trx, { account: ended.accountId as AccountId, ip }, "session.end");
      }),
  });
}
