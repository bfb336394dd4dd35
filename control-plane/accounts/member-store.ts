// Members and invitations of organisations, as the store keeps them.
import type { AccountId, MemberId, ProjectId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import type { NewMail } from "../new-mail.ts";
import type { Caller, CallerMember } from "./caller.ts";
import type { MemberRole } from "./member-role.ts";

/** `created`: founded the organisation, or is a service account. `provider`: an identity provider decides on it. */
export type MemberSource = "created" | "invited" | "provider";

export const memberLimits = {
  /** People and service accounts of one organisation. */
  members: 500,
  /** Pending invitations of one organisation. */
  invitations: 100,
  /** Organisations that one person is a member of. */
  organizations: 50,
} as const;
export const invitationLifeMs = 7 * 86_400_000;

export interface MemberRecord {
  readonly id: MemberId;
  /** Null: a service account. */
  readonly person: AccountId | null;
  /** Display name of the person, or the name of the service account. */
  readonly name: string;
  readonly email: string | null;
  readonly role: MemberRole;
  readonly source: MemberSource;
  /** To which the member's keys belong, the default first; empty: any project, or none. */
  readonly projects: readonly ProjectId[];
  readonly createdAtMs: number;
}

export interface MemberChange {
  readonly role?: MemberRole | undefined;
  readonly projects?: readonly ProjectId[] | undefined;
}

export interface OrganizationRecord {
  readonly account: AccountId;
  readonly displayName: string;
  /** As members see it; changed by `POST /v1/me/team_display_name`. */
  readonly teamDisplayName: string | null;
  readonly member: MemberId;
  readonly role: MemberRole;
  readonly suspendReason: string | null;
}

export interface InvitationRecord {
  readonly id: string;
  readonly role: MemberRole;
  /** Null: anyone with the link. */
  readonly email: string | null;
  /** Projects of the member, the default first; empty: any project, or none. */
  readonly projects: readonly ProjectId[];
  /** Display name of who made it; null: the account itself. */
  readonly invitedBy: string | null;
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
}

/** An invitation as the person sees it who may accept it. */
export interface OfferedInvitation extends Pick<InvitationRecord, "id" | "role" | "email" | "expiresAtMs"> {
  readonly organization: AccountId;
  readonly name: string;
}

/** A ticket names its invitation by id, or by the address that it was mailed to. */
export interface InvitationTicket {
  readonly organization: AccountId;
  readonly id: string | null;
  readonly email: string | null;
}

/** The organisation's part of a caller that acts in it. */
export type OrganizationAccount = Pick<Caller, "account" | "displayName" | "email" | "suspendReason"> & {
  readonly mayPrioritize: boolean;
};

/** A change by a member, or by the account itself, of others. */
export interface MemberEditor {
  /** False for a role above the editor's own. Undefined: the account itself. */
  readonly mayChange: (own: MemberRole | undefined, role: MemberRole) => boolean;
  readonly act: Act;
}

/** Throws as AccountStore does. Each change is one transaction with its audit row and its announcement. */
export interface MemberStore {
  /** The membership of a person in a live organisation. */
  membership(
    person: AccountId,
    organization: AccountId,
  ): Promise<{ readonly member: CallerMember; readonly account: OrganizationAccount } | undefined>;
  /** The organisations of a person, oldest membership first. */
  organizations(person: AccountId): Promise<readonly OrganizationRecord[]>;
  members(organization: AccountId): Promise<readonly MemberRecord[]>;
  member(organization: AccountId, id: MemberId): Promise<MemberRecord | undefined>;
  /** Another role also ends the invitations that the member made. */
  change(
    organization: AccountId,
    id: MemberId,
    change: MemberChange,
    editor: MemberEditor,
  ): Promise<"done" | "gone" | "above" | "last_owner" | "not_a_person" | "project_gone">;
  /** Revokes the member's keys, and ends their SSH keys, terminals and invitations. */
  remove(
    organization: AccountId,
    id: MemberId,
    editor: MemberEditor,
  ): Promise<"done" | "gone" | "above" | "last_owner">;
  addServiceAccount(
    organization: AccountId,
    member: { readonly id: MemberId; readonly name: string; readonly role: MemberRole },
    maxMembers: number,
    editor: MemberEditor,
  ): Promise<"done" | "gone" | "no_organization" | "above" | "full" | "name_taken">;
  invitations(organization: AccountId, nowMs: number): Promise<readonly InvitationRecord[]>;
  /** Replaces an earlier one for the same address. `mail`: sent to that address, unless the organisation sent too many. */
  invite(
    organization: AccountId,
    invitation: Pick<InvitationRecord, "id" | "role" | "email" | "projects" | "expiresAtMs"> & {
      readonly createdBy: MemberId | null;
      readonly mail: NewMail | undefined;
    },
    maxInvitations: number,
    editor: MemberEditor,
  ): Promise<"done" | "mailed" | "gone" | "no_organization" | "above" | "full" | "already_member" | "project_gone">;
  withdraw(organization: AccountId, id: string, editor: MemberEditor): Promise<"done" | "gone" | "above">;
  offered(ticket: InvitationTicket, nowMs: number): Promise<OfferedInvitation | undefined>;
  /** Uses the invitation. */
  accept(
    invitation: OfferedInvitation,
    member: { readonly id: MemberId; readonly person: AccountId },
    limits: typeof memberLimits,
    ip: string,
    nowMs: number,
  ): Promise<"done" | "gone" | "already_member" | "full" | "too_many_organizations">;
}
