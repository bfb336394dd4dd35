import {
  conflict,
  type ErrorFacts,
  type ErrorParams,
  forbidden,
  invalid,
  notFound,
  rateLimited,
  ServiceError,
  unauthenticated,
} from "../service-error.ts";
import type { CallerRole } from "./caller.ts";
import type { MemberRole } from "./member-role.ts";

export class InvalidApiKey extends ServiceError {
  constructor(cause?: unknown) {
    super(
      "unauthenticated",
      "invalid_api_key",
      "Invalid or missing API key. Send it as `Authorization: Bearer <key>`; your account lists its keys.",
      {
        cause,
      },
    );
  }
}

export const notForOperators = () =>
  forbidden(
    "not_for_operators",
    "X-Stoker-Act-As reads lists and records of an account. It cannot change anything, and shows no secrets, files or responses. Remove the header, or use an operation of /v1/admin.",
  );

/** The same whether the account exists or not. */
export const notAMember = () =>
  forbidden(
    "not_a_member",
    "You are not a member of this organization, or no longer. `GET /v1/organizations` lists yours.",
  );

export const notAdmin = () => forbidden("admin_only", "This operation requires an operator's account.");

/** A scoped token used outside inference. */
export const scopeNotAllowed = () =>
  forbidden(
    "scope_not_allowed",
    "Scoped tokens can only run inference and read models. Use an API key of the account.",
  );

/** A key, or a token that it signed, used beyond its role. */
export const roleNotAllowed = (role: CallerRole, needed: readonly CallerRole[]) =>
  forbidden(
    "role_not_allowed",
    `This key has the role \`${role}\`; this request needs a key with the role ${needed.map((one) => `\`${one}\``).join(" or ")}.`,
  );

/** A member of an organisation whose role lacks the right. */
export const memberRoleNotAllowed = (role: MemberRole, needed: readonly MemberRole[]) =>
  forbidden(
    "role_not_allowed",
    `Your role in this organization is \`${role}\`; this request needs the role ${needed.map((one) => `\`${one}\``).join(" or ")}.`,
  );

/** Nobody signs in to an organisation. */
export const personalOnly = () =>
  forbidden(
    "personal_account_only",
    "This request concerns a person's own account. Send it without X-Stoker-Act-As, with a session or key of that account.",
  );

export const accountNameTaken = (message: string, facts?: ErrorFacts) => conflict("name_taken", message, facts);

export const badDisplayName = () =>
  invalid("bad_display_name", "A display name must be 1 to 39 letters and digits, with single hyphens between them.", {
    param: "display_name",
  });

/** For the operator, who identifies accounts by uid. */
export const accountNotFound = () =>
  notFound("account_not_found", "Account not found. `GET /v1/admin/accounts` lists the accounts.");

/** For the operator: the records of a deleted account can only be read. */
export const accountDeleted = (account: string, atMs: number) =>
  conflict(
    "account_deleted",
    `The account ${account} was deleted on ${new Date(atMs).toISOString().slice(0, 10)}. Its records can be read (\`GET /v1/admin/accounts/${account}\`) but not changed.`,
  );

export const notSuspended = (reason: string | undefined) =>
  conflict(
    "not_suspended",
    reason === undefined
      ? "The account is not suspended."
      : `The account is not suspended for ${reason}. Its record lists the current reasons.`,
  );

export const applicationOpen = () =>
  conflict("application_open", "Your account already has a pending application. Wait for the operator's decision.");

export const applicationNotFound = () => notFound("application_not_found", "Application not found.");

export const applicationDecided = () =>
  conflict(
    "application_decided",
    "This application was already decided, and a decision is final. The account can apply again.",
  );

/** At least one account must be able to administer. */
export const lastAdmin = () =>
  conflict("last_admin", "This is the only operator's account. Make another account an operator's account first.");

export const accountGone = () => notFound("account_not_found", "The account of this key no longer exists.");

export const notInTeam = () =>
  notFound(
    "not_in_team",
    "This account is not a team account, so it has no team display name. An operator can change that.",
  );

export const badSshKey = (message: string) => invalid("bad_ssh_key", message, { param: "key" });

export const sshKeyNameTaken = () =>
  conflict(
    "name_taken",
    "An SSH key of this name already exists in your account. Choose another name, or delete that key first.",
    { param: "name" },
  );

export const sshKeyNotFound = () => notFound("ssh_key_not_found", "SSH key not found.");

/** The same message for an unknown address and a wrong password. */
export const wrongPassword = (message = "The e-mail address or the password is wrong.") =>
  unauthenticated("wrong_password", message);

/** `isFirst`: the first refusal of its window. */
export class TooManyAttempts extends ServiceError<ErrorParams & { readonly isFirst: boolean }> {
  constructor(waitMs: number, isFirst = false) {
    const minutes = Math.ceil(waitMs / 60_000);
    super(
      "rate_limited",
      "too_many_attempts",
      `Too many attempts. Try again in ${minutes} ${minutes === 1 ? "minute" : "minutes"}.`,
      { retryAfterSeconds: waitMs / 1000, params: { isFirst } },
    );
  }
}

export const signInBusy = () =>
  rateLimited("sign_in_busy", "Too many concurrent sign-ins. Try again in a few seconds.", {
    retryAfterSeconds: 3,
  });

/** Links in mails need a mail server, and an address that leads here. */
export const noMailLinks = () =>
  conflict("mail_disabled", "This server sends no mails with links. Ask its operator for help.");

/** A link that was used, has expired, or was mailed to an earlier address of the account. */
export const mailLinkExpired = () =>
  unauthenticated(
    "mail_link_expired",
    "This link was used or has expired, or the account has another address now. Ask for a new mail.",
  );

export const emailAlreadyVerified = () =>
  conflict("email_already_verified", "The e-mail address of this account is already verified.");

export const signUpClosed = () =>
  forbidden("sign_up_closed", "Sign-up is closed on this installation. Ask its operator for an account.");

export const accountInUse = () =>
  conflict(
    "account_in_use",
    "Deployments were created while the account was being deleted. Stop creating them and delete the account again.",
  );
