import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { PasswordWrite, SessionFactor, SessionStore } from "../../accounts/store.ts";
import type { Actor } from "../../act.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { findsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { queueMail } from "../work/mail-store.ts";
import { accountColumns, isDeprovisioned, liveAccount, mustHaveFactor } from "./account-rows.ts";
import { auditOwn } from "./audit-rows.ts";

const hasFactor = sql<boolean>`exists (select 1 from second_factor f where f.account_id = account.account_id)`;
/** True when the operator requires a second factor of the account and it has none. */
const mustAddFactor = sql<boolean>`${mustHaveFactor} and not ${hasFactor}`.as("mustEnrol");

/** What its people must prove is decided by the provider. */
const isByProvider = ({ factors }: { readonly factors: readonly SessionFactor[] }) => factors.includes("oidc");

/** A release that stored no time knew only when the session began, which of a provider's person proves nothing. */
const proofTimeMs = sql<number>`floor(extract(epoch from coalesce(auth_time,
  case when 'oidc' = any (factors) then 'epoch' else login_session.created_at end)) * 1000)::float8`;

/** Too short to say anything about the hash, and long enough to be unique. */
const sessionId = sql<string>`left(encode(lookup, 'hex'), 16)`;
const maxListed = 1_000;

export function createSessionStore(db: Db): SessionStore {
  return asked<SessionStore>({
    async credentials(email) {
      const { rows } = await sql<{
        canonical: string;
        account: AccountId | null;
        hash: string | null;
        epoch: number;
      }>`
        select canonical, account_id as account, hash, sign_in_epoch as epoch
        from (select lower(${email}::text) as canonical)
        left join account on lower(email) = canonical and deleted_at is null
        left join password using (account_id)`.execute(db);
      const { canonical, account, hash, epoch } = rows[0] as (typeof rows)[0];
      return { canonical, found: account === null ? undefined : { account, hash: hash ?? undefined, epoch } };
    },

    async passwordOf(account) {
      const row = await db.selectFrom("password").select("hash").where("accountId", "=", account).executeTakeFirst();
      return row?.hash;
    },

    nameOf: (account) =>
      db
        .selectFrom("account")
        .select(["email", "displayName", "signInEpoch as epoch", sql<string>`lower(email)`.as("canonical")])
        .where("accountId", "=", account)
        .where("deletedAt", "is", null)
        .executeTakeFirst(),

    isAdmin: (account) =>
      db
        .selectFrom("account")
        .select("accountId")
        .where("accountId", "=", account)
        .where("isAdmin", "=", true)
        .where("deletedAt", "is", null)
        .$call(findsRow),

    setPassword: (actor, change) =>
      inTransaction(db, async (trx) => {
        const row = await liveAccount(trx, actor.account).select("signInEpoch").forUpdate().executeTakeFirst();
        if (!row) return "gone";
        if (row.signInEpoch !== change.epoch) return "expired";
        if (change.keep !== undefined && !(await hasSession(trx, change.keep))) return "expired";
        await writePassword(trx, actor, { ...change, action: "password.set" });
        return "set";
      }),

    openSession: (actor, session) =>
      inTransaction(db, async (trx) => {
        const row = await liveAccount(trx, actor.account)
          .select([
            ...accountColumns,
            mustAddFactor,
            hasFactor.as("hasFactor"),
            "signInEpoch",
            isDeprovisioned.as("isDeprovisioned"),
          ])
          .forShare()
          .executeTakeFirstOrThrow();
        const { mustEnrol, hasFactor: hasOne, signInEpoch, isDeprovisioned: isOut, ...account } = row;
        if (isOut) return undefined;
        if (session.epoch !== undefined && session.epoch !== signInEpoch) return undefined;
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
            authTime: new Date(session.authTimeMs),
            ip: actor.ip,
            userAgent: session.userAgent,
          })
          .execute();
        await auditOwn(trx, actor, "session.begin", { after: { factors: session.factors } });
        return { account, mustEnrol: mustEnrol && !isByProvider(session) };
      }),

    async session(lookup) {
      const row = await db
        .selectFrom("loginSession")
        .innerJoin("account", "account.accountId", "loginSession.accountId")
        .select([...accountColumns, "factors", mustAddFactor])
        .select([
          epochMs("loginSession.createdAt").as("beganAtMs"),
          proofTimeMs.as("authTimeMs"),
          epochMs("seenAt").as("seenAtMs"),
          epochMs("expiresAt").as("endsAtMs"),
        ])
        .where("lookup", "=", lookup)
        .where("deletedAt", "is", null)
        .executeTakeFirst();
      if (!row) return undefined;
      const { mustEnrol, beganAtMs, authTimeMs, seenAtMs, endsAtMs, factors, ...account } = row;
      const times = { beganAtMs, authTimeMs, seenAtMs, endsAtMs };
      return { account, factors, mustEnrol: mustEnrol && !isByProvider({ factors }), ...times };
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

const hasSession = async (trx: Trx, lookup: Buffer): Promise<boolean> =>
  (await trx.selectFrom("loginSession").select("accountId").where("lookup", "=", lookup).executeTakeFirst()) !==
  undefined;

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
  // A sign-in by the earlier password that is in progress opens no session.
  await trx
    .updateTable("account")
    .set((eb) => ({ signInEpoch: eb("signInEpoch", "+", 1) }))
    .where("accountId", "=", account)
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
