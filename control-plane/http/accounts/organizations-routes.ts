// Organisations: one's own, their members, invitations, service accounts, and the rights of a caller.
import { Type } from "typebox";
import type { MemberId, ProjectId } from "../../../proto/ids.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import { type MemberRole, memberRoles } from "../../accounts/member-role.ts";
import type { InvitationRecord, MemberRecord, OrganizationRecord } from "../../accounts/member-store.ts";
import { holds, permissions, type Right, rights } from "../../accounts/permissions.ts";
import { actOf, originOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import { displayNamePattern, emailPattern } from "./account-schemas.ts";
import type { AccountFeatures } from "./features.ts";
import { mailLinkPaths } from "./mail-pages.ts";

const roleList = { type: "string", enum: memberRoles } as const;
const Role = Type.Unsafe<MemberRole>({
  ...roleList,
  description:
    "owner: everything; admin: all but owners and the end of the account; developer: inference, resources and usage; billing: money and usage; viewer: reading",
});
const RoleInQuery = Type.Unsafe<MemberRole>(roleList);
const RightName = Type.Unsafe<Right>({ type: "string", enum: rights });

const OrganizationBody = Type.Object({
  uid: Type.String({ description: "Send it as X-Stoker-Act-As to act in the organization" }),
  display_name: Type.String(),
  role: Role,
  member_id: Type.String({ description: "Your member id" }),
  suspend_reason: nullable.string(),
});

const projectIds = {
  description:
    "Projects to which the member's keys belong, the default first; others only by members who may manage keys. Empty: any, or none",
};
const ProjectIds = Type.Array(Type.String({ maxLength: 64 }), { maxItems: 20, ...projectIds });
/** The groups of an identity provider may give more. */
const AllProjectIds = Type.Array(Type.String(), projectIds);

const MemberBody = Type.Object({
  id: Type.String(),
  type: Type.Unsafe<"person" | "service_account">({ type: "string", enum: ["person", "service_account"] }),
  uid: nullable.string({ description: "Account of the person" }),
  name: Type.String(),
  email: nullable.string(),
  role: Role,
  source: Type.Unsafe<MemberRecord["source"]>({
    type: "string",
    enum: ["created", "invited", "provider"],
    description: "provider: an identity provider decides on the membership",
  }),
  project_ids: AllProjectIds,
  created_at: Type.Integer({ description: "Unix seconds" }),
});

const invitationFields = {
  id: Type.String(),
  role: Role,
  email: nullable.string({
    description: "Only a person with this verified address may accept it; null: whoever has the link",
  }),
  project_ids: AllProjectIds,
  invited_by: nullable.string({ description: "Name of the member" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  expires_at: Type.Integer({ description: "Unix seconds" }),
};
const InvitationBody = Type.Object(invitationFields);
const CreatedInvitation = Type.Object({
  ...invitationFields,
  token: Type.String({ description: "Accepts the invitation, once. Shown once" }),
  url: Type.String({ description: "Page that accepts it, in a browser" }),
  mailed: Type.Boolean({
    description:
      "A link was mailed as well. False too where the server sends no mails, or beyond its limits of mails in a day",
  }),
});

const OfferBody = Type.Object({
  organization: Type.Object({ uid: Type.String(), display_name: Type.String() }),
  role: Role,
  email: nullable.string(),
  expires_at: Type.Integer({ description: "Unix seconds" }),
});

const InvitationToken = Type.Object({ token: Type.String({ minLength: 1, maxLength: 64 }) });

const PermissionsBody = Type.Object({
  uid: Type.String({ description: "Account that the caller acts for" }),
  key_role: Type.String({ description: "Role of the key; admin for a session" }),
  member_id: nullable.string({ description: "Null: the account itself" }),
  member_role: nullable.string(),
  rights: Type.Array(RightName, { description: "Rights of the caller: those of both roles" }),
  roles: Type.Record(Type.String(), Type.Array(RightName), { description: "Rights of each role of a member" }),
});

export function addOrganizationRoutes(endpoints: Endpoints, features: AccountFeatures): void {
  const { members } = features;
  const own = endpoints.with({ tag: "account", access: "key" });

  own.get("/v1/permissions", {
    right: "listModels",
    summary: "Get the caller's roles and rights",
    isFromMemory: true,
    answer: PermissionsBody,
    handler: ({ caller }) => ({
      uid: caller.account,
      key_role: caller.role,
      member_id: caller.member?.id ?? null,
      member_role: caller.member?.role ?? null,
      rights: rights.filter((right) => holds(right, caller)),
      roles: rightsOfRoles,
    }),
  });

  own.get("/v1/organizations", {
    right: "readSignIn",
    summary: "List the organizations that you are a member of",
    answer: Type.Object({ organizations: Type.Array(OrganizationBody) }),
    handler: async ({ caller }) => ({
      organizations: (await members.organizations(caller.account)).map(renderOrganization),
    }),
  });

  own.post("/v1/organizations", {
    right: "changeSignIn",
    summary: "Create an organization, whose owner you are",
    needsRecentSignIn: true,
    idempotent: true,
    body: Type.Object({ display_name: Type.String({ minLength: 1, maxLength: 39, pattern: displayNamePattern }) }),
    answer: OrganizationBody,
    refusals: [404, 409],
    handler: async ({ caller, body, reply }) =>
      renderOrganization(await members.createOrganization(caller.account, body.display_name, actOf(caller, reply))),
  });

  addMemberRoutes(endpoints, members);
  addInvitationRoutes(endpoints, features);
}

function addMemberRoutes(endpoints: Endpoints, members: AccountFeatures["members"]): void {
  const own = endpoints.with({ tag: "account", access: "key" });
  const one = { answer: MemberBody, refusals: [404] };

  own.get("/v1/members", {
    right: "readAccount",
    summary: "List the people and service accounts of the organization",
    query: Type.Object({ role: Type.Optional(RoleInQuery) }),
    answer: Type.Object({ members: Type.Array(MemberBody) }),
    async handler({ caller, query: { role } }) {
      const all = await members.list(caller.account);
      return { members: all.filter((member) => role === undefined || member.role === role).map(renderMember) };
    },
  });

  own.get("/v1/members/:id", {
    ...one,
    right: "readAccount",
    summary: "Get a member",
    handler: async ({ caller, params }) => renderMember(await members.get(caller.account, params.id as MemberId)),
  });

  own.patch("/v1/members/:id", {
    ...one,
    right: "manageMembers",
    summary: "Change the role of a member, which counts at once for their keys, or the projects of their new keys",
    needsRecentSignIn: true,
    body: Type.Partial(Type.Object({ role: Role, project_ids: ProjectIds })),
    refusals: [404, 409],
    handler: async ({ caller, params, body, reply }) =>
      renderMember(
        await members.change(
          caller,
          params.id as MemberId,
          { role: body.role, projects: body.project_ids as ProjectId[] | undefined },
          actOf(caller, reply),
        ),
      ),
  });

  own.delete("/v1/members/:id", {
    ...one,
    right: "leave",
    summary: "Remove a member, or leave: revokes their keys. Removing others needs the right manageMembers",
    needsRecentSignIn: true,
    refusals: [404, 409],
    handler: async ({ caller, params, reply }) =>
      renderMember(await members.remove(caller, params.id as MemberId, actOf(caller, reply))),
  });

  own.post("/v1/service-accounts", {
    right: "manageMembers",
    summary: "Create a member that is a program; POST /v1/api-tokens with its member_id creates its keys",
    needsRecentSignIn: true,
    idempotent: true,
    body: Type.Object({
      name: Type.String({ minLength: 1, maxLength: 64, pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" }),
      role: Role,
    }),
    answer: MemberBody,
    refusals: [404, 409],
    handler: async ({ caller, body, reply }) =>
      renderMember(await members.addServiceAccount(caller, body.name.trim(), body.role, actOf(caller, reply))),
  });
}

function addInvitationRoutes(endpoints: Endpoints, { members, publicUrl }: AccountFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key" });
  const secret = { holdsSecrets: true };

  own.get("/v1/invitations", {
    right: "manageMembers",
    summary: "List pending invitations, newest first",
    answer: Type.Object({ invitations: Type.Array(InvitationBody) }),
    handler: async ({ caller }) => ({
      invitations: (await members.invitations(caller.account)).map(renderInvitation),
    }),
  });

  own.post("/v1/invitations", {
    ...secret,
    right: "manageMembers",
    summary: "Invite a person by a link, which is mailed as well where an address is given",
    needsRecentSignIn: true,
    idempotent: true,
    body: Type.Object({
      role: Role,
      email: Type.Optional(nullable.string({ minLength: 3, maxLength: 320, pattern: emailPattern })),
      project_ids: Type.Optional(ProjectIds),
    }),
    answer: CreatedInvitation,
    refusals: [404, 409],
    async handler({ caller, body, reply }) {
      const { role, email = null, project_ids: projects = [] } = body;
      const made = await members.invite(
        caller,
        { role, email, projects: projects as ProjectId[] },
        actOf(caller, reply),
      );
      const url = `${originOf(publicUrl, reply.request)}${mailLinkPaths.join_organization}?ticket=${made.token}`;
      return { ...renderInvitation(made), token: made.token, url, mailed: made.wasMailed };
    },
  });

  own.delete("/v1/invitations/:id", {
    right: "manageMembers",
    summary: "Withdraw an invitation",
    refusals: [404],
    handler: ({ caller, params, reply }) => members.withdraw(caller, params.id, actOf(caller, reply)),
  });

  own.post("/v1/invitations/preview", {
    right: "readSignIn",
    summary: "Get what an invitation offers",
    body: InvitationToken,
    answer: OfferBody,
    async handler({ body }) {
      const { organization, name, role, email, expiresAtMs } = await members.offered(body.token);
      return {
        organization: { uid: organization, display_name: name },
        role,
        email,
        expires_at: unixSeconds(expiresAtMs),
      };
    },
  });

  own.post("/v1/invitations/accept", {
    right: "changeSignIn",
    summary: "Accept an invitation, with the account of the person",
    needsRecentSignIn: true,
    body: InvitationToken,
    answer: OrganizationBody,
    refusals: [404, 409],
    handler: async ({ caller, body, reply }) =>
      renderOrganization(await members.accept(caller.account, body.token, reply.request.ip)),
  });
}

const rightsOfRoles = Object.fromEntries(
  memberRoles.map((role) => [
    role,
    rights.filter((right) => (permissions[right].members as readonly MemberRole[]).includes(role)),
  ]),
);

const renderOrganization = ({
  account,
  displayName,
  teamDisplayName,
  role,
  member,
  suspendReason,
}: OrganizationRecord) => ({
  uid: account,
  display_name: teamDisplayName ?? displayName,
  role,
  member_id: member,
  suspend_reason: suspendReason,
});

const renderMember = ({ id, person, name, email, role, source, projects, createdAtMs }: MemberRecord) => ({
  id,
  type: person === null ? ("service_account" as const) : ("person" as const),
  uid: person,
  name,
  email,
  role,
  source,
  project_ids: [...projects],
  created_at: unixSeconds(createdAtMs),
});

const renderInvitation = ({ id, role, email, projects, invitedBy, createdAtMs, expiresAtMs }: InvitationRecord) => ({
  id,
  role,
  email,
  project_ids: [...projects],
  invited_by: invitedBy,
  created_at: unixSeconds(createdAtMs),
  expires_at: unixSeconds(expiresAtMs),
});
