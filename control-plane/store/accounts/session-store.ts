import { sql } from "kysely";
import type { PasswordWrite, SessionStore } from "../../accounts/store.ts";
import type { Actor } from "../../act.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { queueMail } from "../work/mail-store.ts";
import { accountColumns, liveAccount, lockAccount, mustHaveFactor } from "./account-rows.ts";
import { auditOwn } from "./audit-rows.ts";

const hasFactor = sql<boolean>`exists (select 1 from second_factor f where f.account_id = account.account_id)`;
/** True when the operator requires a second factor of the account and it has none. */
const mustAddFactor = sql<boolean>`${mustHaveFactor} and not ${hasFactor}`.as("mustEnrol");

/** Too short to say anything about the hash, and long enough to be unique. */
const sessionId = sql<string>`left(encode(lookup, 'hex'), 16)`;
const maxListed = 1_000;

export function createSessionStore(db: Db): SessionStore {
  return asked<SessionStore>({
    async credentials(email) {
      const row = await db
        .selectFrom("account")
        .leftJoin("password", "password.accountId", "account.accountId")
        .select(["account.accountId as account", "hash"])
        .where(sql<boolean>`lower(email) = lower(${email})`)
        .where("deletedAt", "is", null)
        .executeTakeFirst();
      return row && { ...row, hash: row.hash ?? undefined };
    },

    async passwordOf(account) {
      const row = await db.selectFrom("password").select("hash").where("accountId", "=", account).executeTakeFirst();
      return row?.hash;
    },

    nameOf: (account) =>
      db
        .selectFrom("account")
        .select(["email", "displayName"])
        .where("accountId", "=", account)
        .where("deletedAt", "is", null)
        .executeTakeFirst(),

    setPassword: (actor, change) =>
      inTransaction(db, async (trx) => {
        if (!(await lockAccount(trx, actor.account, "forUpdate"))) return false;
        await writePassword(trx, actor, { ...change, action: "password.set" });
        return true;
      }),

    openSession: (actor, session) =>
      inTransaction(db, async (trx) => {
        const row = await liveAccount(trx, actor.account)
          .select([...accountColumns, mustAddFactor, hasFactor.as("hasFactor")])
          .forShare()
          .executeTakeFirstOrThrow();
        const { mustEnrol, hasFactor: hasOne, ...account } = row;
        if (hasOne && session.factors.every((factor) => factor === "password" || factor === "link")) return undefined;
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
            ip: actor.ip,
            userAgent: session.userAgent,
          })
          .execute();
        await auditOwn(trx, actor, "session.begin", { after: { factors: session.factors } });
        return { account, mustEnrol };
      }),

    async session(lookup) {
      const row = await db
        .selectFrom("loginSession")
        .innerJoin("account", "account.accountId", "loginSession.accountId")
        .select([...accountColumns, "factors", mustAddFactor])
        .select([
          epochMs("loginSession.createdAt").as("beganAtMs"),
          epochMs("seenAt").as("seenAtMs"),
          epochMs("expiresAt").as("endsAtMs"),
        ])
        .where("lookup", "=", lookup)
        .where("deletedAt", "is", null)
        .executeTakeFirst();
      if (!row) return undefined;
      const { factors, mustEnrol, beganAtMs, seenAtMs, endsAtMs, ...account } = row;
      return { account, factors, mustEnrol, beganAtMs, seenAtMs, endsAtMs };
    },

    async touchSession(lookup, seenAtMs, endsAtMs) {
      await db
        .updateTable("loginSession")
        .set({ seenAt: new Date(seenAtMs), expiresAt: new Date(endsAtMs) })
        .where("lookup", "=", lookup)
        .where("seenAt", "<", new Date(seenAtMs))
        .execute();
    },

    sessionsOf: (account, nowMs) =>
      db
        .selectFrom("loginSession")
        .select([sessionId.as("id"), "factors", "ip", "userAgent"])
        .select([
          epochMs("createdAt").as("beganAtMs"),
          epochMs("seenAt").as("seenAtMs"),
          epochMs("expiresAt").as("endsAtMs"),
        ])
        .where("accountId", "=", account)
        .where("expiresAt", ">", new Date(nowMs))
        .orderBy("seenAt", "desc")
        .limit(maxListed)
        .execute(),

    revokeSession: (actor, id) =>
      inTransaction(db, async (trx) => {
        const ended = await trx
          .deleteFrom("loginSession")
          .where("accountId", "=", actor.account)
          .where(sessionId, "=", id)
          .executeTakeFirst();
        if (ended.numDeletedRows === 0n) return false;
        await auditOwn(trx, actor, "session.revoke", { before: { id } });
        await announce(trx, "session", actor.account);
        return true;
      }),

    endSession: (lookup, ip) =>
      inTransaction(db, async (trx) => {
        const ended = await trx
          .deleteFrom("loginSession")
          .where("lookup", "=", lookup)
          .returning("accountId")
          .executeTakeFirst();
        if (!ended) return;
        if (ip !== undefined) await auditOwn(trx, { account: ended.accountId, ip }, "session.end");
        await announce(trx, "session", ended.accountId);
      }),
  });
}

/** Links and steps of a sign-in that do not need the new password. */
const overtaken = ["second_factor", "link", "reset_password"] as const;

/** Sets the password, ends the account's sessions but `keep`, and its unfinished sign-ins. Call it with the account's row locked. */
export async function writePassword(
  trx: Trx,
  actor: Actor,
  { hash, keep, notice, action }: PasswordWrite & { readonly action: "password.set" | "password.reset" },
): Promise<void> {
  const { account } = actor;
  await trx
    .insertInto("password")
    .values({ accountId: account, hash })
    .onConflict((conflict) => conflict.column("accountId").doUpdateSet({ hash, changedAt: now }))
    .execute();
  const ended = await trx
    .deleteFrom("loginSession")
    .where("accountId", "=", account)
    .$if(keep !== undefined, (others) => others.where("lookup", "<>", keep as Buffer))
    .executeTakeFirst();
  await trx.deleteFrom("signInChallenge").where("accountId", "=", account).where("purpose", "in", overtaken).execute();
  await auditOwn(trx, actor, action, { after: { sessions_ended: Number(ended.numDeletedRows) } });
  if (notice) await queueMail(trx, { ...notice, account });
  if (ended.numDeletedRows > 0n) await announce(trx, "session", account);
}
