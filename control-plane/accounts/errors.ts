import { ServiceError } from "../service-error.ts";

export class InvalidApiKey extends ServiceError {
  readonly code = "invalid_api_key";
  constructor(cause?: unknown) {
    super("No valid API key was given. Send it as `Authorization: Bearer <key>`; keys are listed in your account.", {
      cause,
    });
  }
}

export class NotAdmin extends ServiceError {
  readonly code = "admin_only";
  constructor() {
    super("This operation is for the operator's account.");
  }
}

/** A scoped token outside inference. */
export class ScopeNotAllowed extends ServiceError {
  readonly code = "scope_not_allowed";
  constructor() {
    super("A scoped token is good for inference and for reading models only. Use an API key of the account here.");
  }
}

export class AccountNameTaken extends ServiceError {
  readonly code = "name_taken";
}

export class BadDisplayName extends ServiceError {
  readonly code = "bad_display_name";
  constructor() {
    super("A display name has 1 to 39 letters and digits, with single hyphens between them.", {
      param: "display_name",
    });
  }
}

export class AccountStoreAway extends ServiceError {
  readonly code = "store_away";
  constructor(cause: unknown) {
    super("The account records cannot be read at the moment. Try again in a few seconds.", {
      cause,
      retryAfterSeconds: 2,
    });
  }
}

/** For the operator, who names accounts by their uid. */
export class AccountNotFound extends ServiceError {
  readonly code = "account_not_found";
  constructor() {
    super("There is no such account. `GET /v1/admin/accounts` lists the accounts.");
  }
}

/** For the operator: what is left of it can be read, and nothing else. */
export class AccountDeleted extends ServiceError {
  readonly code = "account_deleted";
  constructor(account: string, atMs: number) {
    super(
      `The account ${account} was deleted on ${new Date(atMs).toISOString().slice(0, 10)}. Its records stay (\`GET /v1/admin/accounts/${account}\`), but nothing of it can be changed.`,
    );
  }
}

export class NotSuspended extends ServiceError {
  readonly code = "not_suspended";
  constructor(reason: string | undefined) {
    super(
      reason === undefined
        ? "The account is not suspended."
        : `The account is not suspended for ${reason}. The account's record lists the reasons that hold.`,
    );
  }
}

export class BadCursor extends ServiceError {
  readonly code = "bad_cursor";
  constructor() {
    super("The cursor is not one of ours. Send `next_cursor` of the page before, unchanged.", { param: "cursor" });
  }
}

export class ApplicationOpen extends ServiceError {
  readonly code = "application_open";
  constructor() {
    super("Your account has an application that is not decided yet. Wait for the operator's decision.");
  }
}

export class ApplicationNotFound extends ServiceError {
  readonly code = "application_not_found";
  constructor() {
    super("There is no such application.");
  }
}

export class ApplicationDecided extends ServiceError {
  readonly code = "application_decided";
  constructor() {
    super("This application was decided before; a decision is final. The account may apply again.");
  }
}

/** Somebody must be able to administer. */
export class LastAdmin extends ServiceError {
  readonly code = "last_admin";
  constructor() {
    super("This is the only operator's account: make another account one first.");
  }
}

export class AccountGone extends ServiceError {
  readonly code = "account_not_found";
  constructor() {
    super("The account of this key no longer exists.");
  }
}

export class NotInTeam extends ServiceError {
  readonly code = "not_in_team";
  constructor() {
    super("This account is no team account, so it has no team display name. An operator can make it one.");
  }
}

export class BadSshKey extends ServiceError {
  readonly code = "bad_ssh_key";
  constructor(message: string) {
    super(message, { param: "key" });
  }
}

export class SshKeyNameTaken extends ServiceError {
  readonly code = "name_taken";
  constructor() {
    super("There is an SSH key of this name in your account. Choose another name, or delete that key first.", {
      param: "name",
    });
  }
}

export class SshKeyNotFound extends ServiceError {
  readonly code = "ssh_key_not_found";
  constructor() {
    super("There is no such SSH key in your account.");
  }
}

/** One sentence for an unknown address and a wrong password. */
export class WrongPassword extends ServiceError {
  readonly code = "wrong_password";
  constructor(message = "The e-mail address or the password is wrong.") {
    super(message);
  }
}

export class TooManyAttempts extends ServiceError {
  readonly code = "too_many_attempts";
  constructor(waitMs: number) {
    const minutes = Math.ceil(waitMs / 60_000);
    super(`There were too many attempts. Try again in ${minutes} ${minutes === 1 ? "minute" : "minutes"}.`, {
      retryAfterSeconds: waitMs / 1000,
    });
  }
}

export class SignInBusy extends ServiceError {
  readonly code = "sign_in_busy";
  constructor() {
    super("Many people sign in at this moment. Try again in a few seconds.", { retryAfterSeconds: 3 });
  }
}

export class SignUpClosed extends ServiceError {
  readonly code = "sign_up_closed";
  constructor() {
    super("This installation makes no accounts by itself. Ask its operator for one.");
  }
}

export class AccountInUse extends ServiceError {
  readonly code = "account_in_use";
  constructor() {
    super("Deployments are being made while the account is to be deleted. Stop what makes them, and delete it again.");
  }
}
