import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { EndRefusal, ProfileOutcome, ProfileStore } from "../../accounts/store.ts";
import type { Actor } from "../../act.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { affectsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { queueMail } from "../work/mail-store.ts";
import { accountColumns, hasOtherAdmin, isNameTaken, liveAccount, lockAdmins } from "./account-rows.ts";
import { auditAct, auditOwn } from "./audit-rows.ts";
import { deleteMember, organizationWithoutOtherOwner } from "./member-rows.ts";

export function createProfileStore(db: Db): ProfileStore {
  return asked<ProfileStore>({
    profile: (account) =>
      db
        .selectFrom("account")
        .select([...accountColumns, "emailVerified", "name", "firstName", "lastName", "country", "countryCode"])
        .select(["company", "website", "title", "useCase", "attribution", "marketingEmails"])
        .select(["isBusinessAccount", "isTeamAccount", "teamDisplayName"])
        .where("accountId", "=", account)
        .where("deletedAt", "is", null)
        .executeTakeFirst(),

    changeProfile: (actor, change, notice) =>
      namesOf(() =>
        inTransaction(db, async (trx): Promise<ProfileOutcome> => {
          const before = await liveAccount(trx, actor.account)
            .select(["email", "displayName"])
            .forUpdate()
            .executeTakeFirst();
          if (!before) return "gone";
          if (Object.keys(change).length === 0) return "changed";
          const isNewAddress = change.email !== undefined && change.email !== before.email;
          if (notice && isNewAddress) await queueMail(trx, { ...notice, account: actor.account });
          await trx
            .updateTable("account")
            .set(change)
            .$if(change.email !== undefined, (update) =>
              // What an operator sets needs no mail.
              update.set({ emailVerified: sql<boolean>`is_admin or (email_verified and email = ${change.email})` }),
            )
            .where("accountId", "=", actor.account)
            .execute();
          const after = { email: before.email, displayName: before.displayName, ...change };
          if (after.email !== before.email || after.displayName !== before.displayName)
            await auditOwn(trx, actor, "account.change", { before: audited(before), after: audited(after) });
          await announce(trx, "account", actor.account);
          return "changed";
        }),
      ),

    nameTeam: (actor, name) =>
      namesOf(() =>
        inTransaction(db, async (trx): Promise<ProfileOutcome> => {
          const before = await liveAccount(trx, actor.account)
            .select(["isTeamAccount", "teamDisplayName"])
            .forUpdate()
            .executeTakeFirst();
          if (!before) return "gone";
          if (!before.isTeamAccount) return "no_team";
          await trx
            .updateTable("account")
            .set({ teamDisplayName: name })
            .where("accountId", "=", actor.account)
            .execute();
          await auditOwn(trx, actor, "account.name_team", { before: before.teamDisplayName, after: name });
          await announce(trx, "account", actor.account);
          return "changed";
        }),
      ),

    mayEnd: (account) => inTransaction(db, (trx) => mayEnd(trx, account)),
    end: (actor) => inTransaction(db, (trx) => endAccount(trx, actor)),

    sshKeys: (account) =>
      db
        .selectFrom("sshKey")
        .select(["sshKeyId as id", "name", "publicKey as key", "fingerprint", epochMs("createdAt").as("createdAtMs")])
        .where("accountId", "=", account)
        .orderBy("createdAt")
        .orderBy("name")
        .execute(),

    addSshKey: (account, key, member) =>
      db
        .insertInto("sshKey")
        .values({
          sshKeyId: key.id,
          accountId: account,
          name: key.name,
          publicKey: key.key,
          fingerprint: key.fingerprint,
          createdAt: new Date(key.createdAtMs),
          memberId: member,
        })
        .onConflict((conflict) => conflict.constraint("ssh_key_name").doNothing())
        .$call(affectsRow),

    removeSshKey: (account, id) =>
      db.deleteFrom("sshKey").where("accountId", "=", account).where("sshKeyId", "=", id).$call(affectsRow),
  });
}

async function namesOf(work: () => Promise<ProfileOutcome>): Promise<ProfileOutcome> {
  try {
    return await work();
  } catch (error) {
    const constraint = uniqueViolation(error);
    if (constraint === "account_email_key") return "email_taken";
    if (constraint === "account_team_name_key" || isNameTaken(constraint)) return "name_taken";
    throw error;
  }
}

const audited = ({ email, displayName }: { email: string; displayName: string }) => ({
  email,
  display_name: displayName,
});

async function mayEnd(trx: Trx, account: AccountId): Promise<"yes" | EndRefusal> {
  await lockAdmins(trx);
  const row = await liveAccount(trx, account).select("isAdmin").forUpdate().executeTakeFirst();
  if (!row) return "gone";
  const lastOwnerOf = await organizationWithoutOtherOwner(trx, account);
  if (lastOwnerOf !== undefined) return { lastOwnerOf };
  if (!row.isAdmin) return "yes";
  return (await hasOtherAdmin(trx, account)) ? "yes" : "last_admin";
}

/** The person leaves their organisations, as if they were removed. */
async function endMemberships(trx: Trx, actor: Actor): Promise<void> {
  const memberships = await trx
    .selectFrom("member")
    .select(["memberId as id", "accountId as organization", "role"])
    .where("personId", "=", actor.account)
    .execute();
  for (const { id, organization, role } of memberships) {
    const { keys } = await deleteMember(trx, id);
    await auditAct(
      trx,
      { by: actor.by ?? actor.account, ip: actor.ip },
      {
        action: "member.remove",
        subject: id,
        account: organization,
        before: { person: actor.account, role },
        after: { keys_revoked: keys },
      },
    );
    await announce(trx, "account", organization);
  }
}

/** Deletes an account. Ledger, usage, audit and the revoked keys stay, as records. */
export async function endAccount(trx: Trx, actor: Actor): Promise<"ended" | EndRefusal | "has_deployments"> {
  const { account } = actor;
  const may = await mayEnd(trx, account);
  if (may !== "yes") return may;
  const left = await trx
    .selectFrom("deployment")
    .select("deployId")
    .where("accountId", "=", account)
    .where("status", "<>", "deleted")
    .limit(1)
    .executeTakeFirst();
  const adapter = await trx
    .selectFrom("adapter")
    .select("adapterId")
    .where("accountId", "=", account)
    .where("status", "<>", "deleted")
    .limit(1)
    .executeTakeFirst();
  if (left || adapter) return "has_deployments";
  await endMemberships(trx, actor);
  // Includes requests with a webhook and their calls: they have no receiver any more.
  const ownRows = [
    "loginSession",
    "cliLogin",
    "password",
    "secondFactor",
    "recoveryCode",
    "signInChallenge",
    "providerSignIn",
    "identity",
    "workloadIdentity",
    "sshKey",
    "member",
    "invitation",
    "project",
    "programApplication",
    "voice",
    "modelMeta",
    "modelAlias",
    "storedResponse",
    "endUser",
    "rejectedRequest",
    "limitAlert",
    "mail",
    "webhookJob",
    "webhookSecret",
  ] as const;
  for (const table of ownRows) await trx.deleteFrom(table).where("accountId", "=", account).execute();
  await trx
    .updateTable("identityProvider")
    .set({ organizationId: null, defaultRole: null })
    .where("organizationId", "=", account)
    .execute();
  // The trigger of the calls has reduced this count to 0.
  await trx.deleteFrom("webhookKept").where("accountId", "=", account).where("bytes", "<=", 0n).execute();
  await trx
    .updateTable("apiKey")
    .set({ revokedAt: now })
    .where("accountId", "=", account)
    .where("revokedAt", "is", null)
    .execute();
  await trx
    .updateTable("accountBilling")
    .set({ alertUrl: null, alertHost: null, alertMail: true, invoiceAddress: "" })
    .where("accountId", "=", account)
    .execute();
  // The next sweep removes the bytes; batches end at their next line.
  await trx.updateTable("file").set({ removedAt: now }).where("accountId", "=", account).execute();
  await trx
    .updateTable("batch")
    .set({ status: "cancelling", cancellingAt: now })
    .where("accountId", "=", account)
    .where("status", "in", ["validating", "in_progress"])
    .execute();
  await trx
    .updateTable("account")
    .set({
      email: account,
      displayName: account,
      emailVerified: false,
      name: "",
      firstName: "",
      lastName: "",
      country: "",
      countryCode: "",
      company: "",
      website: "",
      title: "",
      useCase: "",
      attribution: "",
      marketingEmails: false,
      teamDisplayName: null,
      isAdmin: false,
      deletedAt: now,
    })
    .where("accountId", "=", account)
    .execute();
  await auditOwn(trx, actor, "account.delete");
  await announce(trx, "account", account);
  return "ended";
}
