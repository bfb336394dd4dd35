// Members of organisations on whom an identity provider decides, within the transactions of identities.
import { sql } from "kysely";
import { type AccountId, type MemberId, type ProjectId, randomId } from "../../../proto/ids.ts";
import type { Act } from "../../act.ts";
import type { ProvidedRole } from "../../identity/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import {
  countMembers,
  countOrganizations,
  deleteMember,
  endMemberAccess,
  type FoundMember,
  hasOtherOwner,
  insertMember,
  memberColumns,
  memberLimits,
  memberOf,
  setMemberRole,
} from "../accounts/member-rows.ts";
import { lockProjects } from "../accounts/project-store.ts";
import { announce } from "../core/change-feed.ts";
import type { Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";

/** The roles with the most rights first. */
const order: readonly ProvidedRole[] = ["admin", "developer", "billing", "viewer"];
/** People whom one audit entry names. */
const maxAudited = 100;
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

/** Role with the most rights of those that the groups give. Null: no member. */
function providedRole(
  groups: readonly string[],
  roleOfGroup: Readonly<Record<string, ProvidedRole>>,
  fallback: ProvidedRole | null,
): ProvidedRole | null {
  const roles = new Set(groups.filter((name) => Object.hasOwn(roleOfGroup, name)).map((name) => roleOfGroup[name]));
  return order.find((role) => roles.has(role)) ?? fallback;
}

/** All projects of the groups, in the order of the groups' names, or the default ones. Empty: any project, or none. */
function providedProjects(
  groups: readonly string[],
  projectsOfGroup: Readonly<Record<string, readonly ProjectId[]>>,
  fallback: readonly ProjectId[],
): readonly ProjectId[] {
  const named = [...new Set(groups)].filter((name) => Object.hasOwn(projectsOfGroup, name)).sort();
  return named.length === 0 ? fallback : [...new Set(named.flatMap((name) => projectsOfGroup[name] ?? []))];
}

/** Gives the people of a provider the roles and projects of their groups. Members whom people invited, and owners, stay as they are. */
export async function syncMembers(
  trx: Trx,
  provider: string,
  identities: readonly string[],
  act: Acting,
): Promise<void> {
  if (identities.length === 0) return;
  const stale = await staleMembers(trx, provider, identities);
  if (stale.length === 0) return;
  // The people before the organisation, as wherever members change.
  const live = await trx
    .selectFrom("account")
    .select("accountId")
    .where(sql<boolean>`account_id = any(${stale.map(({ person }) => person)}::text[])`)
    .where("deletedAt", "is", null)
    .orderBy("accountId")
    .forNoKeyUpdate()
    .execute();
  const people = new Set(live.map(({ accountId }) => accountId));
  const [{ organization } = { organization: null }] = stale;
  if (organization === null || !(await lockAccount(trx, organization))) return;
  const locked = stale.map(({ identity }) => identity);
  const present = (await staleMembers(trx, provider, locked)).filter(
    (one) => people.has(one.person) && one.organization === organization,
  );
  for (const { member, role, projects } of present) {
    if (!member) continue;
    if (role === null) {
      await endMember(trx, organization, member, act);
      continue;
    }
    if (role !== member.role) await changeRole(trx, organization, member, role, act);
    if (projects !== undefined) await setProvidedProjects(trx, organization, member.id, projects, act);
  }
  const joining = present.flatMap(({ member, person, role, projects = [] }) =>
    member || role === null ? [] : [{ person, role, projects }],
  );
  await addMembers(trx, organization, joining, act);
}

interface StaleMember {
  readonly identity: string;
  readonly person: AccountId;
  readonly organization: AccountId;
  /** As stored; undefined: none. */
  readonly member: FoundMember | undefined;
  /** As the groups say; null: none. */
  readonly role: ProvidedRole | null;
  /** As the groups say; undefined: as before. */
  readonly projects: readonly ProjectId[] | undefined;
}

/** The people whose stored role, or the projects that the provider gave last, are not those of their groups. */
async function staleMembers(
  trx: Trx,
  provider: string,
  identities: readonly string[],
): Promise<readonly StaleMember[]> {
  const settings = await trx
    .selectFrom("identityProvider")
    .select(["organizationId as organization", "defaultRole", "roleOfGroup"])
    .select(["defaultProjectIds as defaultProjects", "projectsOfGroup"])
    // Without groups by SCIM those of the claim count.
    .select(
      sql<boolean>`exists (select from scim_group g where g.provider_id = identity_provider.provider_id)`.as(
        "hasGroups",
      ),
    )
    .where("providerId", "=", provider)
    .executeTakeFirst();
  if (!settings?.organization) return [];
  const { organization, defaultRole, roleOfGroup, defaultProjects, projectsOfGroup, hasGroups } = settings;
  const rows = await trx
    .selectFrom("identity")
    .leftJoin("member", (on) =>
      on.onRef("member.personId", "=", "identity.accountId").on("member.accountId", "=", organization),
    )
    .select(["identityId as identity", "identity.accountId as account", "isActive", "claimedGroups"])
    .select(["member.memberId as id", "member.role", "member.source", "providedProjectIds as given"])
    .select(
      sql<string[]>`array(
        select unnest(array[g.display_name, g.external_id]) from scim_group_member m join scim_group g using (group_id)
          where m.identity_id = identity.identity_id)`.as("groups"),
    )
    .where("identity.providerId", "=", provider)
    .where(sql<boolean>`identity.identity_id = any(${[...identities]}::text[])`)
    .orderBy("identity.accountId")
    .execute();
  return rows.flatMap((row) => {
    const { identity, account: person, isActive, id, role: before, source, given } = row;
    const groups = hasGroups ? row.groups : row.claimedGroups;
    const role = isActive ? providedRole(groups, roleOfGroup, defaultRole) : null;
    const wanted = providedProjects(groups, projectsOfGroup, defaultProjects);
    const projects = given?.join() === wanted.join() ? undefined : wanted;
    const isOther = before !== role || (role !== null && projects !== undefined);
    const isStale = source === null ? role !== null : source === "provider" && before !== "owner" && isOther;
    const member = id === null || before === null || source === null ? undefined : { id, person, role: before, source };
    return isStale ? [{ identity, person, organization, member, role, projects }] : [];
  });
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
  await revokeAccess(trx, organization, before.id, "the last owner was deactivated by the identity provider", act);
}

/** Ends what a member has in an organisation, but not the membership. */
async function revokeAccess(
  trx: Trx,
  organization: AccountId,
  member: MemberId,
  reason: string,
  act: Acting,
): Promise<void> {
  const { keys } = await endMemberAccess(trx, member);
  await auditAct(trx, act, {
    action: "member.keys_revoke",
    subject: member,
    account: organization,
    after: { keys_revoked: keys, reason },
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
    .select(memberColumns)
    .where("accountId", "=", organization)
    .where("source", "=", "provider")
    .where("role", "<>", "owner")
    .where("personId", "in", (of) => of.selectFrom("identity").select("accountId").where("providerId", "=", provider))
    .execute();
  if (rows.length === 0 || !(await lockAccount(trx, organization))) return;
  for (const row of rows) await endMember(trx, organization, row, act);
}

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

/** A sign-in succeeds also where the person cannot become a member, for example of a full organisation: the audit log says so. */
async function addMembers(
  trx: Trx,
  organization: AccountId,
  people: readonly {
    readonly person: AccountId;
    readonly role: ProvidedRole;
    readonly projects: readonly ProjectId[];
  }[],
  act: Acting,
): Promise<void> {
  if (people.length === 0) return;
  let space = memberLimits.members - (await countMembers(trx, organization));
  const refused: AccountId[] = [];
  for (const { person, role, projects } of people) {
    if (space <= 0 || (await countOrganizations(trx, person)) >= memberLimits.organizations) {
      refused.push(person);
      continue;
    }
    // Without their projects they could use any: the next sign-in finds rules without the one that is being deleted.
    if (!(await lockProjects(trx, organization, projects))) {
      refused.push(person);
      continue;
    }
    const id = randomId<"member">(16);
    await insertMember(trx, { id, organization, person, name: "", role, source: "provider" }, act);
    if (projects.length > 0) await setProvidedProjects(trx, organization, id, projects, act);
    act.accounts.add(organization);
    space -= 1;
  }
  if (refused.length === 0) return;
  await auditAct(trx, act, {
    action: "member.add_refused",
    subject: organization,
    account: organization,
    after: { people: refused.slice(0, maxAudited), count: refused.length },
  });
}

async function changeRole(
  trx: Trx,
  organization: AccountId,
  member: FoundMember,
  role: ProvidedRole,
  act: Acting,
): Promise<void> {
  await setMemberRole(trx, organization, member, { role, source: member.source }, act);
  act.accounts.add(organization);
}

/** Applies to keys created later. */
async function setProvidedProjects(
  trx: Trx,
  organization: AccountId,
  member: MemberId,
  projects: readonly ProjectId[],
  act: Acting,
): Promise<void> {
  // Rules name no deleted projects, except while one is being deleted: the next sign-in then sets them, and until then the earlier ones bind.
  if (!(await lockProjects(trx, organization, projects))) return;
  await trx
    .updateTable("member")
    .set({ projectIds: [...projects], providedProjectIds: [...projects] })
    .where("memberId", "=", member)
    .execute();
  await auditAct(trx, act, { action: "member.change", subject: member, account: organization, after: { projects } });
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
  // A key that is being created is there before the others are revoked, or is refused.
  if (isManaged) await lockAccount(trx, person);
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
  act.sessions.add(person);
  if (!isManaged) return;
  await trx.deleteFrom("workloadIdentity").where("accountId", "=", person).execute();
  const revoked = await trx
    .updateTable("apiKey")
    .set({ revokedAt: now })
    .where("accountId", "=", person)
    .where("revokedAt", "is", null)
    .executeTakeFirst();
  const memberships = await trx
    .selectFrom("member")
    .select(["memberId as id", "accountId as organization"])
    .where("personId", "=", person)
    .where("accountId", "is distinct from", organization)
    .orderBy("accountId")
    // So that no key is created on their behalf in the meantime.
    .forUpdate()
    .execute();
  for (const one of memberships)
    await revokeAccess(trx, one.organization, one.id, "the member's identity provider deactivated them", act);
  await auditAct(trx, act, {
    action: "identity.deactivate",
    subject: person,
    account: person,
    after: { keys_revoked: Number(revoked.numUpdatedRows), sessions_ended: Number(sessions.numDeletedRows) },
  });
  act.accounts.add(person);
}
