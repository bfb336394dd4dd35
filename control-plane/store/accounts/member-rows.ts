// Rows of members, for the transactions of accounts, keys and members.
import { sql } from "kysely";
import type { AccountId, MemberId } from "../../../proto/ids.ts";
import type { MemberRole, OwnerRefusal } from "../../accounts/store.ts";
import type { Act } from "../../act.ts";
import type { Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { endWorkloadsOf } from "../identity/workload-rows.ts";
import { liveAccount } from "./account-rows.ts";

/** Also in accounts/members.ts, for the message. */
const maxOrganizations = 50;

/** Locks a member until the commit, so that what exists on their behalf is created before they are removed, or not at all. */
export async function lockMember(trx: Trx, organization: AccountId, id: MemberId): Promise<MemberRole | undefined> {
  const row = await trx
    .selectFrom("member")
    .select("role")
    .where("accountId", "=", organization)
    .where("memberId", "=", id)
    .forShare()
    .executeTakeFirst();
  return row?.role;
}

/** Locks the member who acts until the commit and returns their role. Undefined: the account itself acts. Throws as the act's guard. */
export async function checkActor(
  trx: Trx,
  organization: AccountId,
  { guard }: Pick<Act, "guard">,
): Promise<MemberRole | undefined> {
  if (!guard) return undefined;
  const role = await lockMember(trx, organization, guard.member);
  guard.check(role);
  return role;
}

export const countOrganizations = async (trx: Trx, person: AccountId): Promise<number> => {
  const { count } = await trx
    .selectFrom("member")
    .select(sql<number>`count(*)::int`.as("count"))
    .where("personId", "=", person)
    .executeTakeFirstOrThrow();
  return count;
};

/** Locks the person. */
export async function ownerRefusal(trx: Trx, person: AccountId): Promise<OwnerRefusal | undefined> {
  const row = await liveAccount(trx, person).select("isTeamAccount").forNoKeyUpdate().executeTakeFirst();
  if (!row) return "owner_gone";
  if (row.isTeamAccount) return "not_a_person";
  return (await countOrganizations(trx, person)) >= maxOrganizations ? "too_many_organizations" : undefined;
}

export async function insertOwner(
  trx: Trx,
  organization: AccountId,
  { member, person }: { readonly member: MemberId; readonly person: AccountId },
): Promise<void> {
  await trx
    .insertInto("member")
    .values({ memberId: member, accountId: organization, personId: person, name: "", role: "owner", source: "created" })
    .execute();
}

/**
 * True if the organisation has an owner beside `person`, or is an account of the earlier kind that somebody signs in to. Call it with
 * the organisation's row locked.
 */
export async function hasOtherOwner(trx: Trx, organization: AccountId, person: AccountId): Promise<boolean> {
  const { rows } = await sql<{ has: boolean }>`
    select exists (select from member where account_id = ${organization} and role = 'owner' and person_id <> ${person})
      or exists (select from password where account_id = ${organization}) as has`.execute(trx);
  return rows[0]?.has === true;
}

/** Name of an organisation whose only owner is `person`. Locks the person's organisations. */
export async function organizationWithoutOtherOwner(trx: Trx, person: AccountId): Promise<string | undefined> {
  const owned = await trx
    .selectFrom("member")
    .innerJoin("account", "account.accountId", "member.accountId")
    .select(["account.accountId as account", "displayName", "teamDisplayName"])
    .where("personId", "=", person)
    .where("member.role", "=", "owner")
    .orderBy("account.accountId")
    .forNoKeyUpdate("account")
    .execute();
  for (const { account, displayName, teamDisplayName } of owned)
    if (!(await hasOtherOwner(trx, account, person))) return teamDisplayName ?? displayName;
  return undefined;
}

/** Deletes a member with what exists on their behalf. The caller announces the organisation. */
export async function deleteMember(trx: Trx, id: MemberId): Promise<{ readonly keys: number }> {
  await trx.selectFrom("member").select("memberId").where("memberId", "=", id).forUpdate().execute();
  const revoked = await trx
    .updateTable("apiKey")
    .set({ revokedAt: now })
    .where("memberId", "=", id)
    .where("revokedAt", "is", null)
    .executeTakeFirst();
  await endWorkloadsOf(trx, id);
  // Terminals check for their member themselves, and audit their end.
  for (const table of ["sshKey", "dashboardVisit"] as const)
    await trx.deleteFrom(table).where("memberId", "=", id).execute();
  await trx.deleteFrom("invitation").where("createdBy", "=", id).execute();
  await trx.deleteFrom("member").where("memberId", "=", id).execute();
  return { keys: Number(revoked.numUpdatedRows) };
}
