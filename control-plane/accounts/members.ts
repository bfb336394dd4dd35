// People and service accounts of an organisation, and invitations to it. A member acts with their role, and everything that exists on
// behalf of a member (keys, terminals, invitations they made) ends with them, in the same transaction.
import { type AccountId, type MemberId, randomId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import { linkPlaceholder, type NewMail } from "../new-mail.ts";
import type { AccountMailSettings } from "./account-mails.ts";
import type { Caller } from "./caller.ts";
import type { CreateAccount } from "./create-account.ts";
import { accountGone, memberRoleNotAllowed, TooManyAttempts } from "./errors.ts";
import type { GuessLimits } from "./guess-limits.ts";
import {
  emailNotVerified,
  invitationExpired,
  invitationForOther,
  invitationNotFound,
  lastOwner,
  memberByProvider,
  memberExists,
  memberNotFound,
  notAnOrganization,
  notAServiceAccount,
  notForServiceAccounts,
  serviceNameTaken,
  tooManyInvitations,
  tooManyMembers,
  tooManyOrganizations,
} from "./member-errors.ts";
import { type MemberRole, memberRoles } from "./member-role.ts";
import {
  type InvitationRecord,
  invitationLifeMs,
  type MemberChange,
  type MemberEditor,
  type MemberRecord,
  type MemberStore,
  memberLimits,
  type OfferedInvitation,
  type OrganizationRecord,
} from "./member-store.ts";
import { guarded, includesRole, type Right, roleRefusal } from "./permissions.ts";
import { emptyChange, projectNotFound } from "./projects.ts";
import { sessionCaller } from "./sessions.ts";
import type { ProfileStore } from "./store.ts";
import type { Tickets } from "./tickets.ts";

export interface CreatedInvitation extends InvitationRecord {
  /** Accepts the invitation; shown once. */
  readonly token: string;
  readonly wasMailed: boolean;
}

type WantedInvitation = Pick<InvitationRecord, "role" | "email" | "projects">;

interface MembersDeps {
  readonly store: MemberStore;
  readonly profiles: Pick<ProfileStore, "profile">;
  readonly tickets: Tickets;
  readonly accounts: Pick<CreateAccount, "createOrganization">;
  /** Undefined: this installation sends no mails with links. */
  readonly mail: AccountMailSettings | undefined;
  readonly limits: Pick<GuessLimits, "invitation">;
  readonly unixMs: () => number;
}

const makeId = () => randomId<"member">(16);
const purposes = ["join_organization"] as const;

export function createMembers(deps: MembersDeps) {
  const { store, tickets, unixMs, mail } = deps;

  /** Throws when the role is above the caller's own. */
  function checkGrant(caller: Caller, role: MemberRole): void {
    const own = caller.member?.role;
    if (own !== undefined && !includesRole(own, role)) throw aboveOwnRole(own, role);
  }

  const editorOf = (caller: Caller, act: Act, needed: Right = "manageMembers"): MemberEditor => ({
    act: guarded(needed, caller, act),
    mayChange: (own, role) => own === undefined || includesRole(own, role),
  });

  async function memberOf(organization: AccountId, id: MemberId): Promise<MemberRecord> {
    const found = await store.member(organization, id);
    if (!found) throw memberNotFound();
    return found;
  }

  async function mayMail(by: string, email: string): Promise<boolean> {
    if (!mail) return false;
    try {
      await deps.limits.invitation(by, email);
      return true;
    } catch (error) {
      if (error instanceof TooManyAttempts) return false;
      throw error;
    }
  }

  async function offered(token: string): Promise<OfferedInvitation> {
    const found = await tickets.known(token, purposes);
    const { account: organization, challenge: id, email } = found ?? { account: null, challenge: null, email: null };
    const invitation = organization === null ? undefined : await store.offered({ organization, id, email }, unixMs());
    if (!invitation) throw invitationExpired();
    return invitation;
  }

  return {
    /** The person of a session as a member of an organisation. Undefined: they are none. */
    async actAs({ account: person, expiresAtMs }: Caller, organization: AccountId): Promise<Caller | undefined> {
      const found = await store.membership(person, organization);
      if (!found) return undefined;
      const { account, member } = found;
      return {
        ...sessionCaller({ ...account, isAdmin: false }, expiresAtMs),
        mayPrioritize: account.mayPrioritize,
        member,
      };
    },

    organizations: store.organizations,

    /** Throws accountNameTaken, badDisplayName, notAPerson, tooManyOrganizations. */
    async createOrganization(person: AccountId, displayName: string, act: Act): Promise<OrganizationRecord> {
      const created = await deps.accounts.createOrganization({ displayName, owner: person, act });
      const found = (await store.organizations(person)).find(({ account }) => account === created);
      if (!found) throw accountGone();
      return found;
    },

    list: store.members,
    /** Throws memberNotFound. */
    get: memberOf,

    /**
     * The member that a new key of `caller` is for; null: the account itself. `named`: a service account, if it is not the caller.
     * Throws memberNotFound, memberRoleNotAllowed, notAServiceAccount.
     */
    async holderOf(caller: Caller, named: MemberId | null | undefined): Promise<MemberId | null> {
      const own = caller.member?.id ?? null;
      if (named === undefined || named === null || named === own) return own;
      const refusal = roleRefusal("manageKeys", caller);
      if (refusal) throw refusal;
      const { person, role } = await memberOf(caller.account, named);
      if (person !== null) throw notAServiceAccount();
      checkGrant(caller, role);
      return named;
    },

    /** Throws emptyChange, memberNotFound, memberRoleNotAllowed, lastOwner, notForServiceAccounts, projectNotFound. */
    async change(caller: Caller, id: MemberId, change: MemberChange, act: Act): Promise<MemberRecord> {
      const { role, projects } = change;
      if (role === undefined && projects === undefined) throw emptyChange("role");
      if (role !== undefined) checkGrant(caller, role);
      const outcome = await store.change(caller.account, id, change, editorOf(caller, act));
      if (outcome === "project_gone") throw projectNotFound();
      if (outcome === "gone") throw memberNotFound();
      if (outcome === "above") throw aboveOwnRole(caller.member?.role);
      if (outcome === "last_owner") throw lastOwner();
      if (outcome === "not_a_person") throw notForServiceAccounts();
      return memberOf(caller.account, id);
    },

    /**
     * A member may leave; others need the right to manage members. Throws memberNotFound, memberRoleNotAllowed, lastOwner,
     * memberByProvider.
     */
    async remove(caller: Caller, id: MemberId, act: Act): Promise<MemberRecord> {
      const isSelf = caller.member?.id === id;
      const refusal = isSelf ? undefined : roleRefusal("manageMembers", caller);
      if (refusal) throw refusal;
      const found = await memberOf(caller.account, id);
      // The next sign-in would make them a member again, without the projects to which they are bound.
      if (isSelf && found.source === "provider") throw memberByProvider();
      const outcome = await store.remove(caller.account, id, editorOf(caller, act, isSelf ? "leave" : "manageMembers"));
      if (outcome === "gone") throw memberNotFound();
      if (outcome === "above") throw aboveOwnRole(caller.member?.role);
      if (outcome === "last_owner") throw lastOwner();
      return found;
    },

    /** Throws memberRoleNotAllowed, notAnOrganization, tooManyMembers, serviceNameTaken, notForServiceAccounts. */
    async addServiceAccount(caller: Caller, name: string, role: MemberRole, act: Act): Promise<MemberRecord> {
      checkGrant(caller, role);
      if (role === "owner") throw notForServiceAccounts();
      const id = makeId();
      const outcome = await store.addServiceAccount(
        caller.account,
        { id, name, role },
        memberLimits.members,
        editorOf(caller, act),
      );
      if (outcome === "gone") throw accountGone();
      if (outcome === "no_organization") throw notAnOrganization();
      if (outcome === "above") throw aboveOwnRole(caller.member?.role, role);
      if (outcome === "full") throw tooManyMembers(memberLimits.members);
      if (outcome === "name_taken") throw serviceNameTaken(name);
      return memberOf(caller.account, id);
    },

    invitations: (organization: AccountId) => store.invitations(organization, unixMs()),

    /**
     * Not mailed beyond the limits of mails: the caller has the link. Throws memberRoleNotAllowed, notAnOrganization,
     * tooManyInvitations, memberExists, projectNotFound.
     */
    async invite(caller: Caller, wanted: WantedInvitation, act: Act): Promise<CreatedInvitation> {
      const { role, email } = wanted;
      const projects = [...new Set(wanted.projects)];
      checkGrant(caller, role);
      const { account: organization, member } = caller;
      const id = randomId<"invitation">(16);
      const nowMs = unixMs();
      const expiresAtMs = nowMs + invitationLifeMs;
      const profile = await deps.profiles.profile(organization);
      if (!profile) throw accountGone();
      const name = profile.teamDisplayName ?? profile.displayName;
      const settings = email !== null && (await mayMail(act.by, email)) ? mail : undefined;
      const outcome = await store.invite(
        organization,
        {
          id,
          role,
          email,
          projects,
          expiresAtMs,
          createdBy: member?.id ?? null,
          mail: settings && invitationMail(settings, organization, name, role),
        },
        memberLimits.invitations,
        editorOf(caller, act),
      );
      if (outcome === "gone") throw accountGone();
      if (outcome === "no_organization") throw notAnOrganization();
      if (outcome === "above") throw aboveOwnRole(member?.role, role);
      if (outcome === "full") throw tooManyInvitations(memberLimits.invitations);
      if (outcome === "already_member") throw memberExists();
      if (outcome === "project_gone") throw projectNotFound();
      const ticket = { account: organization, challenge: id };
      const { ticket: token } = await tickets.issue("join_organization", ticket, invitationLifeMs);
      return {
        id,
        role,
        email,
        projects,
        invitedBy: null,
        createdAtMs: nowMs,
        expiresAtMs,
        token,
        wasMailed: outcome === "mailed",
      };
    },

    /** Throws invitationNotFound, memberRoleNotAllowed. */
    async withdraw(caller: Caller, id: string, act: Act): Promise<void> {
      const outcome = await store.withdraw(caller.account, id, editorOf(caller, act));
      if (outcome === "gone") throw invitationNotFound();
      if (outcome === "above") throw aboveOwnRole(caller.member?.role);
    },

    /** Throws invitationExpired. */
    offered,

    /** Throws invitationExpired, invitationForOther, emailNotVerified, memberExists, tooManyMembers, tooManyOrganizations. */
    async accept(person: AccountId, token: string, ip: string): Promise<OrganizationRecord> {
      const invitation = await offered(token);
      const profile = await deps.profiles.profile(person);
      if (!profile) throw accountGone();
      if (invitation.email !== null) {
        if (invitation.email.toLowerCase() !== profile.email.toLowerCase()) throw invitationForOther();
        if (!profile.emailVerified) throw emailNotVerified();
      }
      const outcome = await store.accept(invitation, { id: makeId(), person }, memberLimits, ip, unixMs());
      if (outcome === "gone") throw invitationExpired();
      if (outcome === "already_member") throw memberExists();
      if (outcome === "full") throw tooManyMembers(memberLimits.members);
      if (outcome === "too_many_organizations") throw tooManyOrganizations(memberLimits.organizations);
      const found = (await store.organizations(person)).find(({ account }) => account === invitation.organization);
      if (!found) throw invitationExpired();
      return found;
    },
  };
}

export type Members = ReturnType<typeof createMembers>;

/** The roles that a member may grant or take are at most their own. */
function aboveOwnRole(own: MemberRole = "viewer", wanted: MemberRole = "owner"): Error {
  return memberRoleNotAllowed(
    own,
    memberRoles.filter((role) => includesRole(role, wanted)),
  );
}

const invitationMail = (
  { makeId: makeMailId, publicUrl }: AccountMailSettings,
  account: AccountId,
  organization: string,
  role: MemberRole,
): NewMail => ({
  id: makeMailId(),
  account,
  link: "join_organization",
  subject: "Invitation to an organization",
  text: [
    `You are invited to the organization ${organization} at ${publicUrl}, with the role ${role}. Join it here:`,
    linkPlaceholder,
    `The link is valid for ${invitationLifeMs / 86_400_000} days and can be used once. If you do not expect it, ignore this mail.`,
  ].join("\n\n"),
});
