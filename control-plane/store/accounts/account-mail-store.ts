// Addresses and passwords that a link in a mail verifies and replaces.
import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { AccountMailStore, ChallengePurpose } from "../../accounts/store.ts";
import type { Actor } from "../../act.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { queueMail } from "../work/mail-store.ts";
import { auditOwn } from "./audit-rows.ts";
import { writePassword } from "./session-store.ts";

export function createAccountMailStore(db: Db): AccountMailStore {
  return asked<AccountMailStore>({
    queue: (account, mail) => inTransaction(db, (trx) => queueMail(trx, { ...mail, account })),

    verifyEmail: (lookup, ip, nowMs) =>
      inTransaction(db, async (trx) => {
        const account = await takeLink(trx, lookup, "verify_email", nowMs);
        if (account === undefined) return false;
        await setVerified(trx, { account, ip });
        return true;
      }),

    resetPassword: (lookup, { ip, hash, notice }, nowMs) =>
      inTransaction(db, async (trx) => {
        const account = await takeLink(trx, lookup, "reset_password", nowMs);
        if (account === undefined) return false;
        const actor = { account, ip };
        await endUnproven(trx, actor);
        await setVerified(trx, actor);
        await writePassword(trx, actor, { hash, keep: undefined, action: "password.reset", notice });
        return true;
      }),
  });
}

/**
 * Uses a link: deletes its ticket and locks the account. Undefined for one that is used, expired, or was mailed to an address
 * that the account no longer has. Locks the account first, as every transaction does.
 */
async function takeLink(
  trx: Trx,
  lookup: Buffer,
  purpose: ChallengePurpose,
  nowMs: number,
): Promise<AccountId | undefined> {
  const owner = await trx
    .selectFrom("account")
    .innerJoin("signInChallenge as c", "c.accountId", "account.accountId")
    .select("account.accountId")
    .where("c.lookup", "=", lookup)
    .where("deletedAt", "is", null)
    .whereRef("account.email", "=", "c.email")
    .forUpdate("account")
    .executeTakeFirst();
  if (!owner) return undefined;
  const { numDeletedRows } = await trx
    .deleteFrom("signInChallenge")
    .where("lookup", "=", lookup)
    .where("purpose", "=", purpose)
    .where("expiresAt", ">", new Date(nowMs))
    .executeTakeFirst();
  return numDeletedRows > 0n ? owner.accountId : undefined;
}

/** Revokes keys and second factors of an account whose address nobody had verified: a stranger may have signed up with it. */
async function endUnproven(trx: Trx, actor: Actor): Promise<void> {
  const { account } = actor;
  const unproven = await trx
    .selectFrom("account")
    .select("accountId")
    .where("accountId", "=", account)
    .where("wasVerified", "=", false)
    .executeTakeFirst();
  if (!unproven) return;
  for (const table of ["secondFactor", "recoveryCode", "sshKey"] as const)
    await trx.deleteFrom(table).where("accountId", "=", account).execute();
  await trx
    .updateTable("apiKey")
    .set({ revokedAt: now })
    .where((key) =>
      key.or([
        key("accountId", "=", account),
        key("memberId", "in", key.selectFrom("member").select("memberId").where("personId", "=", account)),
      ]),
    )
    .where("revokedAt", "is", null)
    .execute();
  const memberOf = await trx.selectFrom("member").select("accountId").where("personId", "=", account).execute();
  for (const { accountId } of memberOf) await announce(trx, "account", accountId);
  await auditOwn(trx, actor, "account.end_unproven");
  await announce(trx, "account", account);
}

async function setVerified(trx: Trx, actor: Actor): Promise<void> {
  const { account } = actor;
  const { rows } = await sql<{ readonly email: string }>`
    update account set email_verified = true, was_verified = true
    where account_id = ${account} and not (email_verified and was_verified) returning email`.execute(trx);
  if (rows.length === 0) return;
  await auditOwn(trx, actor, "account.verify_email", { after: { email: rows[0]?.email } });
  await announce(trx, "account", account);
}
