// Rows of members, for the transactions of accounts, keys and members.
import { sql } from "kysely";
import type { AccountId, MemberId, ProjectId } from "../../../proto/ids.ts";
import type {
  KeyManagers,
  memberLimits as Limits,
  MemberRecord,
  MemberRole,
  OwnerRefusal,
} from "../../accounts/store.ts";
import type { Act } from "../../act.ts";
import { rowCount } from "../core/rows.ts";
import type { Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { endWorkloadsOf } from "../identity/workload-rows.ts";
import { liveAccount } from "./account-rows.ts";
import { auditAct } from "./audit-rows.ts";

/** The type holds the figures equal to those that messages name. */
export const memberLimits: typeof Limits = { members: 500, invitations: 100, organizations: 50 };

/** Roles that may manage keys of others. The type holds it equal to the table of rights. */
export const keyManagers: KeyManagers = ["owner", "admin"];

export type FoundMember = Pick<MemberRecord, "id" | "person" | "role" | "source">;

export const memberColumns = ["memberId as id", "personId as person", "role", "source"] as const;

export const audited = ({ person, role, source }: Pick<FoundMember, "person" | "role" | "source">) => ({
  person,
  role,
  source,
});

/** Locks a member until the commit, so that what exists on their behalf is created before they are removed, or not at all. */
export const lockMember = (
  trx: Trx,
  organization: AccountId,
  id: MemberId,
): Promise<{ readonly role: MemberRole; readonly projectIds: readonly ProjectId[] } | undefined> =>
  trx
    .selectFrom("member")
    .select(["role", "projectIds"])
    .where("accountId", "=", organization)
    .where("memberId", "=", id)
    .forShare()
    .executeTakeFirst();

/** Locks the member who acts until the commit and returns their role. Undefined: the account itself acts. Throws as the act's guard. */
export async function checkActor(
  trx: Trx,
  organization: AccountId,
  { guard }: Pick<Act, "guard">,
): Promise<MemberRole | undefined> {
  if (!guard) return undefined;
  const role = (await lockMember(trx, organization, guard.member))?.role;
  guard.check(role);
  return role;
}

export const countOrganizations = async (trx: Trx, person: AccountId): Promise<number> => {
  const { count } = await trx
    .selectFrom("member")
    .select(rowCount)
    .where("personId", "=", person)
    .executeTakeFirstOrThrow();
  return count;
};

export const countMembers = async (trx: Trx, organization: AccountId): Promise<number> => {
  const { count } = await trx
    .selectFrom("member")
    .select(rowCount)
    .where("accountId", "=", organization)
    .executeTakeFirstOrThrow();
  return count;
};

export const memberOf = (trx: Trx, organization: AccountId, person: AccountId): Promise<FoundMember | undefined> =>
  trx
    .selectFrom("member")
    .select(memberColumns)
    .where("accountId", "=", organization)
    .where("personId", "=", person)
    .executeTakeFirst();

/** The caller announces the organisation. */
export async function insertMember(
  trx: Trx,
  member: FoundMember & {
    readonly organization: AccountId;
    readonly name: string;
    readonly projects?: readonly ProjectId[];
  },
  act: Parameters<typeof auditAct>[1],
): Promise<void> {
  const { id, organization, person, name, role, source, projects = [] } = member;
  const projectIds = [...projects];
  await trx
    .insertInto("member")
    .values({ memberId: id, accountId: organization, personId: person, name, role, source, projectIds })
    .execute();
  const after = {
    ...audited(member),
    ...(person === null ? { name } : {}),
    ...(projects.length > 0 ? { projects } : {}),
  };
  await auditAct(trx, act, { action: "member.add", subject: id, account: organization, after });
}

/** The caller announces the organisation. */
export async function setMemberRole(
  trx: Trx,
  organization: AccountId,
  member: FoundMember,
  { role, source }: Pick<FoundMember, "role" | "source">,
  act: Parameters<typeof auditAct>[1],
): Promise<void> {
  const { id } = member;
  await trx.updateTable("member").set({ role, source }).where("memberId", "=", id).execute();
  // They were made with the rights of the earlier role.
  await trx.deleteFrom("invitation").where("createdBy", "=", id).execute();
  // Their own keys shrink with the role; those that their rules make for service accounts would not.
  if (!keyManagers.includes(role)) await endWorkloadsOf(trx, id, { onlyCreated: true });
  await auditAct(trx, act, {
    action: "member.change",
    subject: id,
    account: organization,
    before: audited(member),
    after: audited({ ...member, role, source }),
  });
}

/** Locks the person. */
export async function ownerRefusal(trx: Trx, person: AccountId): Promise<OwnerRefusal | undefined> {
  const row = await liveAccount(trx, person).select("isTeamAccount").forNoKeyUpdate().executeTakeFirst();
  if (!row) return "owner_gone";
  if (row.isTeamAccount) return "not_a_person";
  return (await countOrganizations(trx, person)) >= memberLimits.organizations ? "too_many_organizations" : undefined;
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

/** Ends what exists on behalf of a member: keys, rules of workloads, SSH keys, open dashboards and invitations. */
export async function endMemberAccess(trx: Trx, id: MemberId): Promise<{ readonly keys: number }> {
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
  return { keys: Number(revoked.numUpdatedRows) };
}

/** Deletes a member with what exists on their behalf. The caller announces the organisation. */
export async function deleteMember(trx: Trx, id: MemberId): Promise<{ readonly keys: number }> {
  const ended = await endMemberAccess(trx, id);
  await trx.deleteFrom("member").where("memberId", "=", id).execute();
  return ended;
}
