// Members of organisations on whom an identity provider decides, within the transactions of identities.
import { sql } from "kysely";
import { type AccountId, type MemberId, randomId } from "../../../proto/ids.ts";
import type { Act } from "../../act.ts";
import type { ProvidedRole } from "../../identity/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { countOrganizations, deleteMember, hasOtherOwner } from "../accounts/member-rows.ts";
import { announce } from "../core/change-feed.ts";
import { rowCount } from "../core/rows.ts";
import type { Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";

/** The roles with the most rights first. */
const order: readonly ProvidedRole[] = ["admin", "developer", "billing", "viewer"];
/** As accounts/member-store.ts. */
const maxMembers = 500;
const maxOrganizations = 50;

/** An act, and the accounts that it changes: they are announced last, because an announcement blocks others until the commit. */
export interface Acting extends Act {
  readonly accounts: Set<string>;
  readonly sessions: Set<string>;
}

/** Runs `work` and announces what it changed. */
export async function announcing<Result>(trx: Trx, act: Act, work: (act: Acting) => Promise<Result>): Promise<Result> {
  const acting = { ...act, accounts: new Set<string>(), sessions: new Set<string>() };
  const result = await work(acting);
  await announce(trx, "account", ...acting.accounts);
  await announce(trx, "session", ...acting.sessions);
  return result;
}

/** Of several groups the role with the most rights counts. Null: no member. */
function providedRole(
  groups: readonly string[],
  roleOfGroup: Readonly<Record<string, ProvidedRole>>,
  fallback: ProvidedRole | null,
): ProvidedRole | null {
  const roles = new Set(groups.filter((name) => Object.hasOwn(roleOfGroup, name)).map((name) => roleOfGroup[name]));
  return order.find((role) => roles.has(role)) ?? fallback;
}

/** Gives the person the role of their groups. Members whom people invited, and owners, stay as they are. */
export async function syncMember(trx: Trx, identity: string, act: Acting): Promise<void> {
  const row = await trx
    .selectFrom("identity")
    .innerJoin("identityProvider", "identityProvider.providerId", "identity.providerId")
    .select(["accountId as person", "isActive", "claimedGroups", "identity.providerId as provider"])
    .select(["organizationId as organization", "defaultRole", "roleOfGroup"])
    .where("identityId", "=", identity)
    .executeTakeFirst();
  if (!row?.organization) return;
  const { person, organization, isActive, roleOfGroup, defaultRole } = row;
  // The person before the organisation, as wherever members change.
  if (!(await lockAccount(trx, person)) || !(await lockAccount(trx, organization))) return;
  const groups = (await scimGroupsOf(trx, row.provider, identity)) ?? row.claimedGroups;
  const role = isActive ? providedRole(groups, roleOfGroup, defaultRole) : null;
  const before = await memberOf(trx, organization, person);
  if (before && (before.source !== "provider" || before.role === "owner")) return;
  if (role === null) {
    if (before) await endMember(trx, organization, before, act);
  } else if (!before) await addMember(trx, organization, person, role, act);
  else if (before.role !== role) await setRole(trx, organization, before, role, act);
}

/** Ends a person's membership, also one by invitation: who leaves the company leaves its organisation. The last owner keeps the role. */
export async function endMembership(trx: Trx, organization: AccountId, person: AccountId, act: Acting): Promise<void> {
  if (!(await lockAccount(trx, person)) || !(await lockAccount(trx, organization))) return;
  const before = await memberOf(trx, organization, person);
  if (!before) return;
  if (before.role !== "owner" || (await hasOtherOwner(trx, organization, person))) {
    await endMember(trx, organization, before, act);
    return;
  }
  await trx
    .updateTable("apiKey")
    .set({ revokedAt: now })
    .where("memberId", "=", before.id)
    .where("revokedAt", "is", null)
    .execute();
  await auditAct(trx, act, {
    action: "member.keys_revoke",
    subject: before.id,
    account: organization,
    after: { reason: "the last owner was deactivated by the identity provider" },
  });
  act.accounts.add(organization);
}

/** Ends the memberships that the provider gave in an organisation; a provider gives no owners. */
export async function endProvidedMembers(
  trx: Trx,
  provider: string,
  organization: AccountId,
  act: Acting,
): Promise<void> {
  const rows = await trx
    .selectFrom("member")
    .select(["memberId as id", "role", "source"])
    .where("accountId", "=", organization)
    .where("source", "=", "provider")
    .where("role", "<>", "owner")
    .where("personId", "in", (of) => of.selectFrom("identity").select("accountId").where("providerId", "=", provider))
    .execute();
  if (rows.length === 0 || !(await lockAccount(trx, organization))) return;
  for (const row of rows) await endMember(trx, organization, row, act);
}

/** Groups that SCIM provisioned; undefined: the provider provisions none, so the claim counts. */
async function scimGroupsOf(trx: Trx, provider: string, identity: string): Promise<readonly string[] | undefined> {
  const any = await trx
    .selectFrom("scimGroup")
    .select("groupId")
    .where("providerId", "=", provider)
    .limit(1)
    .executeTakeFirst();
  if (!any) return undefined;
  const rows = await trx
    .selectFrom("scimGroupMember")
    .innerJoin("scimGroup", "scimGroup.groupId", "scimGroupMember.groupId")
    .select(["displayName", "externalId"])
    .where("identityId", "=", identity)
    .execute();
  return rows.flatMap(({ displayName, externalId }) =>
    externalId === null ? [displayName] : [displayName, externalId],
  );
}

interface FoundMember {
  readonly id: MemberId;
  readonly role: string;
  readonly source: string;
}

const memberOf = (trx: Trx, organization: AccountId, person: AccountId): Promise<FoundMember | undefined> =>
  trx
    .selectFrom("member")
    .select(["memberId as id", "role", "source"])
    .where("accountId", "=", organization)
    .where("personId", "=", person)
    .forUpdate()
    .executeTakeFirst();

async function endMember(trx: Trx, organization: AccountId, member: FoundMember, act: Acting): Promise<void> {
  const { keys } = await deleteMember(trx, member.id);
  await auditAct(trx, act, {
    action: "member.remove",
    subject: member.id,
    account: organization,
    before: { role: member.role, source: member.source },
    after: { keys_revoked: keys },
  });
  act.accounts.add(organization);
}

/** A full organisation gets nobody more, and the sign-in goes on: the audit log says so. */
async function addMember(
  trx: Trx,
  organization: AccountId,
  person: AccountId,
  role: ProvidedRole,
  act: Acting,
): Promise<void> {
  const { count } = await trx
    .selectFrom("member")
    .select(rowCount)
    .where("accountId", "=", organization)
    .executeTakeFirstOrThrow();
  const after = { person, role, source: "provider" };
  if (count >= maxMembers || (await countOrganizations(trx, person)) >= maxOrganizations) {
    await auditAct(trx, act, { action: "member.add_refused", subject: person, account: organization, after });
    return;
  }
  const id = randomId<"member">(16);
  await trx
    .insertInto("member")
    .values({ memberId: id, accountId: organization, personId: person, name: "", role, source: "provider" })
    .execute();
  await auditAct(trx, act, { action: "member.add", subject: id, account: organization, after });
  act.accounts.add(organization);
}

async function setRole(
  trx: Trx,
  organization: AccountId,
  member: FoundMember,
  role: ProvidedRole,
  act: Acting,
): Promise<void> {
  await trx.updateTable("member").set({ role }).where("memberId", "=", member.id).execute();
  // They were made with the rights of the earlier role.
  await trx.deleteFrom("invitation").where("createdBy", "=", member.id).execute();
  await auditAct(trx, act, {
    action: "member.change",
    subject: member.id,
    account: organization,
    before: { role: member.role },
    after: { role },
  });
  act.accounts.add(organization);
}

/** Ends what a deactivated person has: memberships, keys and sessions as `ScimStore.changeUser` says. */
export async function deprovision(trx: Trx, identity: string, act: Acting): Promise<void> {
  const row = await trx
    .selectFrom("identity")
    .innerJoin("identityProvider", "identityProvider.providerId", "identity.providerId")
    .innerJoin("account", "account.accountId", "identity.accountId")
    .select(["identity.accountId as person", "organizationId as organization"])
    // A provider does not decide on operators, also not on one whose account it created.
    .select(sql<boolean>`is_managed and not is_admin`.as("isManaged"))
    .where("identityId", "=", identity)
    .executeTakeFirstOrThrow();
  const { person, isManaged, organization } = row;
  if (organization !== null) await endMembership(trx, organization, person, act);
  const sessions = await trx
    .deleteFrom("loginSession")
    .where("accountId", "=", person)
    .$if(!isManaged, (own) => own.where(sql<boolean>`'oidc' = any(factors)`))
    .executeTakeFirst();
  await trx
    .deleteFrom("signInChallenge")
    .where("accountId", "=", person)
    // Sign-ins that the provider began and that wait for the account's second factor.
    .$if(!isManaged, (own) => own.where("purpose", "=", "second_factor").where("epoch", "is", null))
    .execute();
  if (isManaged) {
    const revoked = await trx
      .updateTable("apiKey")
      .set({ revokedAt: now })
      .where("accountId", "=", person)
      .where("revokedAt", "is", null)
      .executeTakeFirst();
    await auditAct(trx, act, {
      action: "identity.deactivate",
      subject: person,
      account: person,
      after: { keys_revoked: Number(revoked.numUpdatedRows), sessions_ended: Number(sessions.numDeletedRows) },
    });
    act.accounts.add(person);
  }
  act.sessions.add(person);
}
