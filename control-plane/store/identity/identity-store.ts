import { sql } from "kysely";
import type { IdentityStore } from "../../identity/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { auditOwn } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { affectsRow } from "../core/rows.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { announcing, syncMembers } from "./provided-members.ts";

/** Columns of an IdentityRow. */
const identityColumns = [
  "identityId as id",
  "providerId as provider",
  "identity.accountId as account",
  "subject",
  "isActive",
  "isManaged",
  "isLinkedByOwner",
  sql<boolean>`is_admin or is_team_account`.as("isProtected"),
] as const;

export function createIdentityStore(db: Db): IdentityStore {
  const known = (provider: string) =>
    db
      .selectFrom("identity")
      .innerJoin("account", "account.accountId", "identity.accountId")
      .select(identityColumns)
      .where("providerId", "=", provider)
      .where("deletedAt", "is", null);

  return asked<IdentityStore>({
    async putSignIn(lookup, { provider, browser, returnTo, isFresh, link }, expiresAtMs) {
      await db
        .insertInto("providerSignIn")
        .values({
          lookup,
          providerId: provider,
          browser,
          returnTo,
          isFresh,
          accountId: link?.account ?? null,
          session: link?.session ?? null,
          expiresAt: new Date(expiresAtMs),
        })
        .execute();
    },

    async takeSignIn(lookup, nowMs) {
      const row = await db
        .deleteFrom("providerSignIn")
        .where("lookup", "=", lookup)
        .where("expiresAt", ">", new Date(nowMs))
        .returning(["providerId as provider", "browser", "returnTo", "isFresh", "accountId", "session"])
        .returning(epochMs("expiresAt").as("expiresAtMs"))
        .executeTakeFirst();
      if (!row) return undefined;
      const { accountId, session, ...pending } = row;
      return { ...pending, link: accountId && session ? { account: accountId, session } : null };
    },

    find: (provider, subject) => known(provider).where("subject", "=", subject).executeTakeFirst(),

    findProvisioned: (provider, email) =>
      known(provider)
        .where("subject", "is", null)
        .where((row) =>
          row.or([
            sql<boolean>`lower(user_name) = lower(${email})`,
            sql<boolean>`lower(identity.email) = lower(${email})`,
          ]),
        )
        .executeTakeFirst(),

    async bindSubject(identity, subject) {
      try {
        return await db
          .updateTable("identity")
          .set({ subject })
          .where("identityId", "=", identity)
          .where("subject", "is", null)
          .$call(affectsRow);
      } catch (error) {
        if (uniqueViolation(error) !== undefined) return false;
        throw error;
      }
    },

    ownerOf: (email) =>
      db
        .selectFrom("account")
        .select(["accountId as account", "emailVerified as isVerified"])
        .select([
          sql<boolean>`is_admin or is_team_account`.as("isProtected"),
          sql<boolean>`exists (select from second_factor f where f.account_id = account.account_id)
            or exists (select from password p where p.account_id = account.account_id)
            or exists (select from api_key k where k.account_id = account.account_id and k.revoked_at is null
              and coalesce(k.expires_at > now(), true))`.as("hasOwnProof"),
        ])
        .where(sql<boolean>`lower(email) = lower(${email})`)
        .where("deletedAt", "is", null)
        .executeTakeFirst(),

    async link(actor, { id, provider, subject, email, isLinkedByOwner }) {
      try {
        return await inTransaction(db, async (trx) => {
          if (!(await lockAccount(trx, actor.account))) return "gone";
          // Its owner links what was linked by an address, or provisioned, before.
          const known = await trx
            .updateTable("identity")
            .set({ subject, isLinkedByOwner: sql<boolean>`is_linked_by_owner or ${isLinkedByOwner}` })
            .where("providerId", "=", provider)
            .where("accountId", "=", actor.account)
            .where((row) => row.or([row("subject", "is", null), row("subject", "=", subject)]))
            .$call(affectsRow);
          if (!known)
            await trx
              .insertInto("identity")
              .values({
                identityId: id,
                providerId: provider,
                subject,
                accountId: actor.account,
                email,
                isManaged: false,
                isLinkedByOwner,
              })
              .execute();
          await auditOwn(trx, actor, "identity.link", { after: { provider, email } });
          return "done";
        });
      } catch (error) {
        if (uniqueViolation(error) !== undefined) return "taken";
        throw error;
      }
    },

    noteUse: (identity, { email, groups }, act) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .updateTable("identity")
          .set({ lastUsedAt: now, claimedGroups: [...groups], ...(email === "" ? {} : { email }) })
          .where("identityId", "=", identity)
          .returning("providerId as provider")
          .executeTakeFirst();
        if (row) await announcing(trx, act, (acting) => syncMembers(trx, row.provider, [identity], acting));
      }),

    own: (account) =>
      db
        .selectFrom("identity")
        .innerJoin("identityProvider", "identityProvider.providerId", "identity.providerId")
        .select(["identityId as id", "identity.providerId as provider", "identityProvider.name as providerName"])
        .select(["email", "isManaged"])
        .select([
          epochMs("identity.createdAt").as("createdAtMs"),
          epochMs<null>("identity.lastUsedAt").as("lastUsedAtMs"),
        ])
        .where("accountId", "=", account)
        .orderBy("identity.createdAt")
        .execute(),

    unlink: (actor, identity) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom("identity")
          .select(["providerId", "email", "isManaged"])
          .where("identityId", "=", identity)
          .where("accountId", "=", actor.account)
          .forUpdate()
          .executeTakeFirst();
        if (!row) return "gone";
        if (row.isManaged) return "managed";
        await trx.deleteFrom("identity").where("identityId", "=", identity).execute();
        await auditOwn(trx, actor, "identity.unlink", { before: { provider: row.providerId, email: row.email } });
        const { numDeletedRows } = await trx
          .deleteFrom("loginSession")
          .where("accountId", "=", actor.account)
          .where(sql<boolean>`'oidc' = any(factors)`)
          .executeTakeFirst();
        if (numDeletedRows > 0n) await announce(trx, "session", actor.account);
        return "done";
      }),
  });
}
