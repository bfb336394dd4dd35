import { sql } from "kysely";
import type { AccountId, MemberId, ProjectId } from "../../../proto/ids.ts";
import type { MemberStore } from "../../accounts/store.ts";
import type { Act } from "../../act.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { findsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { queueInvitation } from "../work/mail-store.ts";
import { accountColumns, liveAccount, lockAccount } from "./account-rows.ts";
import { auditAct } from "./audit-rows.ts";
import {
  audited,
  checkActor,
  countMembers,
  countOrganizations,
  deleteMember,
  type FoundMember,
  hasOtherOwner,
  insertMember,
  memberColumns,
  memberOf,
  setMemberRole,
} from "./member-rows.ts";
import { lockProjects } from "./project-store.ts";

export function createMemberStore(db: Db): MemberStore {
  return asked<MemberStore>({
    async membership(person, organization) {
      const row = await db
        .selectFrom("member")
        .innerJoin("account", "account.accountId", "member.accountId")
        .select([...accountColumns, "memberId as id", "member.role", "personId as person"])
        .where("member.accountId", "=", organization)
        .where("personId", "=", person)
        .where("deletedAt", "is", null)
        .executeTakeFirst();
      if (!row) return undefined;
      const { id, role, person: of, ...account } = row;
      return { member: { id, role, person: of }, account };
    },

    organizations: (person) =>
      db
        .selectFrom("member")
        .innerJoin("account", "account.accountId", "member.accountId")
        .select(["account.accountId as account", "displayName", "teamDisplayName", "suspendReason"])
        .select(["memberId as member", "member.role"])
        .where("personId", "=", person)
        .where("deletedAt", "is", null)
        .orderBy("member.createdAt")
        .orderBy("member.accountId")
        .execute(),

    members: (organization) => records(db, organization).orderBy("member.createdAt").orderBy("memberId").execute(),

    member: (organization, id) => records(db, organization).where("memberId", "=", id).executeTakeFirst(),

    change: (organization, id, { role, projects }, { mayChange, act }) =>
      inTransaction(db, async (trx) => {
        const found = await lockedMember(trx, organization, id);
        const own = await checkActor(trx, organization, act);
        if (!found) return "gone";
        if (!mayChange(own, found.role) || (role !== undefined && !mayChange(own, role))) return "above";
        const isOther = role !== undefined && role !== found.role;
        if (isOther && role === "owner" && found.person === null) return "not_a_person";
        if (isOther && (await isLastOwner(trx, organization, found))) return "last_owner";
        if (projects && !(await setMemberProjects(trx, organization, id, projects, act))) return "project_gone";
        if (!isOther) return "done";
        // A person has decided on the role, so a provider no longer does.
        const source = found.source === "provider" ? "invited" : found.source;
        await setMemberRole(trx, organization, found, { role, source }, act);
        await announce(trx, "account", organization);
        return "done";
      }),

    remove: (organization, id, { mayChange, act }) =>
      inTransaction(db, async (trx) => {
        const found = await lockedMember(trx, organization, id);
        const own = await checkActor(trx, organization, act);
        if (!found) return "gone";
        if (!mayChange(own, found.role)) return "above";
        if (await isLastOwner(trx, organization, found)) return "last_owner";
        const { keys } = await deleteMember(trx, id);
        await auditAct(trx, act, {
          action: "member.remove",
          subject: id,
          account: organization,
          before: audited(found),
          after: { keys_revoked: keys },
        });
        await announce(trx, "account", organization);
        return "done";
      }),

    async addServiceAccount(organization, { id, name, role }, maxMembers, { mayChange, act }) {
      try {
        return await inTransaction(db, async (trx) => {
          const refusal = await organizationRefusal(trx, organization);
          if (refusal) return refusal;
          if (!mayChange(await checkActor(trx, organization, act), role)) return "above";
          if ((await countMembers(trx, organization)) >= maxMembers) return "full";
          await insertMember(trx, { id, organization, person: null, name, role, source: "created" }, act);
          await announce(trx, "account", organization);
          return "done";
        });
      } catch (error) {
        if (uniqueViolation(error) === "member_service_name") return "name_taken";
        throw error;
      }
    },

    invitations: (organization, nowMs) =>
      db
        .selectFrom("invitation")
        .leftJoin("member", "member.memberId", "invitation.createdBy")
        .leftJoin("account", "account.accountId", "member.personId")
        .select(["invitationId as id", "invitation.role", "invitation.email", "invitation.projectIds as projects"])
        .select(sql<string | null>`coalesce(account.display_name, member.name)`.as("invitedBy"))
        .select([epochMs("invitation.createdAt").as("createdAtMs"), epochMs("expiresAt").as("expiresAtMs")])
        .where("invitation.accountId", "=", organization)
        .where("expiresAt", ">", new Date(nowMs))
        .orderBy("invitation.createdAt", "desc")
        .orderBy("invitationId")
        .execute(),

    invite: (organization, invitation, maxInvitations, { mayChange, act }) =>
      inTransaction(db, async (trx) => {
        const { id, role, email, projects, expiresAtMs, createdBy, mail } = invitation;
        const refusal = await organizationRefusal(trx, organization);
        if (refusal) return refusal;
        if (!mayChange(await checkActor(trx, organization, act), role)) return "above";
        if (email !== null && (await isMemberAddress(trx, organization, email))) return "already_member";
        await trx
          .deleteFrom("invitation")
          .where("accountId", "=", organization)
          .where(sql<boolean>`(expires_at <= now() or lower(email) = lower(${email}::text))`)
          .execute();
        if ((await countInvitations(trx, organization)) >= maxInvitations) return "full";
        if (!(await lockProjects(trx, organization, projects))) return "project_gone";
        await trx
          .insertInto("invitation")
          .values({
            invitationId: id,
            accountId: organization,
            role,
            email,
            projectIds: [...projects],
            createdBy,
            expiresAt: new Date(expiresAtMs),
          })
          .execute();
        const after = { role, email, projects };
        await auditAct(trx, act, { action: "invitation.create", subject: id, account: organization, after });
        return mail && email !== null && (await queueInvitation(trx, mail, email)) ? "mailed" : "done";
      }),

    withdraw: (organization, id, { mayChange, act }) =>
      inTransaction(db, async (trx) => {
        const own = await checkActor(trx, organization, act);
        const found = await trx
          .selectFrom("invitation")
          .select(["role", "email"])
          .where("accountId", "=", organization)
          .where("invitationId", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!found) return "gone";
        if (!mayChange(own, found.role)) return "above";
        await trx.deleteFrom("invitation").where("invitationId", "=", id).execute();
        await auditAct(trx, act, { action: "invitation.delete", subject: id, account: organization, before: found });
        return "done";
      }),

    async offered({ organization, id, email }, nowMs) {
      if (id === null && email === null) return undefined;
      const row = await db
        .selectFrom("invitation")
        .innerJoin("account", "account.accountId", "invitation.accountId")
        .select(["invitationId as id", "invitation.role", "invitation.email", "account.accountId as organization"])
        .select(sql<string>`coalesce(team_display_name, display_name)`.as("name"))
        .select(epochMs("expiresAt").as("expiresAtMs"))
        .where("invitation.accountId", "=", organization)
        .where("deletedAt", "is", null)
        .where("expiresAt", ">", new Date(nowMs))
        .$if(id !== null, (by) => by.where("invitationId", "=", id as string))
        .$if(id === null, (by) => by.where(sql<boolean>`lower(invitation.email) = lower(${email})`))
        .executeTakeFirst();
      return row;
    },

    accept: ({ id, organization }, member, limits, ip, nowMs) =>
      inTransaction(db, async (trx) => {
        const { person } = member;
        // The person before the organisation, as the end of a person's account locks them.
        if (!(await lockAccount(trx, person)) || !(await lockAccount(trx, organization))) return "gone";
        if (await memberOf(trx, organization, person)) return "already_member";
        if ((await countMembers(trx, organization)) >= limits.members) return "full";
        if ((await countOrganizations(trx, person)) >= limits.organizations) return "too_many_organizations";
        const used = await trx
          .deleteFrom("invitation")
          .where("invitationId", "=", id)
          .where("accountId", "=", organization)
          .where("expiresAt", ">", new Date(nowMs))
          .returning(["role", "projectIds"])
          .executeTakeFirst();
        // A project that has just been deleted: the member would be bound to none.
        if (!used || !(await lockProjects(trx, organization, used.projectIds))) return "gone";
        const act = { by: person, ip };
        await insertMember(
          trx,
          {
            id: member.id,
            organization,
            person,
            name: "",
            role: used.role,
            source: "invited",
            projects: used.projectIds,
          },
          act,
        );
        await announce(trx, "account", organization);
        return "done";
      }),
  });
}

const records = (db: Db, organization: AccountId) =>
  db
    .selectFrom("member")
    .leftJoin("account", "account.accountId", "member.personId")
    .select(["memberId as id", "personId as person", "member.role", "source", "email", "projectIds as projects"])
    .select(sql<string>`coalesce(display_name, member.name)`.as("name"))
    .select(epochMs("member.createdAt").as("createdAtMs"))
    .where("member.accountId", "=", organization);

/** Applies to keys created later. False when one of the projects does not exist. */
async function setMemberProjects(
  trx: Trx,
  organization: AccountId,
  id: MemberId,
  projects: readonly ProjectId[],
  act: Act,
): Promise<boolean> {
  if (!(await lockProjects(trx, organization, projects))) return false;
  await trx
    .updateTable("member")
    .set({ projectIds: [...new Set(projects)] })
    .where("memberId", "=", id)
    .execute();
  await auditAct(trx, act, { action: "member.change", subject: id, account: organization, after: { projects } });
  return true;
}

/** Locks the organisation, whose members then do not change. */
async function lockedMember(trx: Trx, organization: AccountId, id: MemberId): Promise<FoundMember | undefined> {
  if (!(await lockAccount(trx, organization))) return undefined;
  return trx
    .selectFrom("member")
    .select(memberColumns)
    .where("accountId", "=", organization)
    .where("memberId", "=", id)
    .forUpdate()
    .executeTakeFirst();
}

const isLastOwner = async (trx: Trx, organization: AccountId, { role, person }: FoundMember): Promise<boolean> =>
  role === "owner" && person !== null && !(await hasOtherOwner(trx, organization, person));

async function organizationRefusal(trx: Trx, organization: AccountId): Promise<"gone" | "no_organization" | undefined> {
  const row = await liveAccount(trx, organization).select("isTeamAccount").forNoKeyUpdate().executeTakeFirst();
  if (!row) return "gone";
  return row.isTeamAccount ? undefined : "no_organization";
}

async function countInvitations(trx: Trx, organization: AccountId): Promise<number> {
  const { count } = await trx
    .selectFrom("invitation")
    .select(sql<number>`count(*)::int`.as("count"))
    .where("accountId", "=", organization)
    .executeTakeFirstOrThrow();
  return count;
}

const isMemberAddress = (trx: Trx, organization: AccountId, email: string): Promise<boolean> =>
  trx
    .selectFrom("member")
    .innerJoin("account", "account.accountId", "member.personId")
    .select("memberId")
    .where("member.accountId", "=", organization)
    .where(sql<boolean>`lower(email) = lower(${email})`)
    .$call(findsRow);
