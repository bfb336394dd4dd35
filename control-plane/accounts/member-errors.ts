import { conflict, forbidden, invalid, notFound, unauthenticated } from "../service-error.ts";

export const memberNotFound = () =>
  notFound("member_not_found", "Member not found. `GET /v1/members` lists the members of this organization.");

export const notAnOrganization = () =>
  conflict(
    "not_an_organization",
    "This account is a person's. Create an organization with POST /v1/organizations and act in it.",
  );

/** The account is an organisation itself. */
export const notAPerson = () =>
  conflict("not_a_person", "An organization cannot be a member of another one. Sign in with your own account.");

/** `organization`: its name, where the refused request does not concern it. */
export const memberByProvider = () =>
  conflict(
    "member_by_provider",
    "Your identity provider makes you a member of this organization, and would do so again at the next sign-in. Ask an administrator of the provider to remove you from its group.",
  );

export const lastOwner = (organization?: string) =>
  conflict(
    "last_owner",
    organization === undefined
      ? "An organization needs at least one owner. Make another member an owner first."
      : `You are the only owner of the organization ${organization}. Make another member an owner, or delete it, first.`,
  );

export const memberExists = () =>
  conflict("already_member", "This person is already a member. Change their role instead.");

export const notForServiceAccounts = () =>
  invalid("bad_member_role", "A service account cannot be an owner. Give it the role admin or a lower one.", {
    param: "role",
  });

/** Keys of people are their own secrets. */
export const notAServiceAccount = () =>
  invalid("bad_member_role", "A key can be created for a service account only. Other members create their own keys.", {
    param: "member_id",
  });

export const serviceNameTaken = (name: string) =>
  conflict("name_taken", `A service account named \`${name}\` already exists. Choose another name.`, { param: "name" });

export const tooManyMembers = (max: number) =>
  conflict("member_limit_reached", `An organization has at most ${max} members. Remove one first.`);

export const tooManyInvitations = (max: number) =>
  conflict("invitation_limit_reached", `At most ${max} pending invitations are allowed. Delete one first.`);

export const tooManyOrganizations = (max: number) =>
  conflict("organization_limit_reached", `A person is in at most ${max} organizations. Leave one first.`);

export const invitationNotFound = () =>
  notFound("invitation_not_found", "Invitation not found. It was used, deleted or has expired.");

/** The same for an unknown token and one that is used, withdrawn or expired. */
export const invitationExpired = () =>
  unauthenticated("invitation_expired", "This invitation was used, withdrawn or has expired. Ask for a new one.");

export const invitationForOther = () =>
  forbidden(
    "invitation_for_other",
    "This invitation is for another e-mail address. Sign in with the account of that address.",
  );

export const emailNotVerified = () =>
  forbidden(
    "email_not_verified",
    "This invitation is for your e-mail address, which is not verified. Verify it (POST /v1/me/verify-email) first.",
  );

/** The member was removed while a key for them was created. */
export const memberGone = () =>
  invalid("member_not_found", "Member not found. `GET /v1/members` lists the members of this organization.", {
    param: "member_id",
  });
