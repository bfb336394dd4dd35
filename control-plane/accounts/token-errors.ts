// Refusals of API keys and scoped tokens.
import { ServiceError } from "../service-error.ts";

export class KeyNameTaken extends ServiceError {
  readonly code = "name_taken";
  constructor(name: string) {
    super(`A live API key of your account is called \`${name}\`. Choose another name, or delete that key first.`, {
      param: "name",
    });
  }
}

export class BadKeyName extends ServiceError {
  readonly code = "bad_key_name";
  constructor(mostBytes: number) {
    super(`A key's name is a text of 1 to ${mostBytes} bytes in UTF-8, without control characters.`, { param: "name" });
  }
}

export class BadAllowedIps extends ServiceError {
  readonly code = "bad_allowed_ips";
  constructor(message: string) {
    super(message, { param: "allowed_ips" });
  }
}

/** A key about to be closed to the address that asks with it. */
export class ShutsOutCaller extends ServiceError {
  readonly code = "shuts_out_caller";
  constructor(ip: string) {
    super(
      `The list leaves out ${ip}, the address you ask from, and would close this key to you. Add it, or use another key.`,
      { param: "allowed_ips" },
    );
  }
}

export class SigningKeyUnknown extends ServiceError {
  readonly code = "api_key_not_found";
  constructor(name: string) {
    super(`There is no live API key called \`${name}\` in your account. \`GET /v1/api-tokens\` lists its keys.`, {
      param: "api_key_name",
    });
  }
}

export class BadExpiry extends ServiceError {
  readonly code = "bad_expiry";
  constructor(message: string, param: string) {
    super(message, { param });
  }
}

export class TooManyModels extends ServiceError {
  readonly code = "too_many_models";
  constructor(mostBytes: number) {
    super(`The token would be longer than ${mostBytes} bytes, the longest that is accepted. Name fewer models.`, {
      param: "models",
    });
  }
}

/** Whatever is wrong with it: which check failed is never told. */
export class ScopedJwtNotFound extends ServiceError {
  readonly code = "scoped_jwt_not_found";
  constructor() {
    super("This is no scoped token that your API key signed. Ask with the key whose name was given when it was made.");
  }
}

export class IdempotencyKeyReused extends ServiceError {
  readonly code = "idempotency_key_reused";
  constructor() {
    super("This Idempotency-Key was used for another request within the last day. Use a new key for a new request.", {
      param: "idempotency-key",
    });
  }
}

export class IdempotencyKeyInUse extends ServiceError {
  readonly code = "idempotency_key_in_use";
  constructor(retryAfterSeconds: number) {
    super("The request with this Idempotency-Key is still running. Ask again in a moment for its answer.", {
      retryAfterSeconds,
    });
  }
}

export class AnswerNotKept extends ServiceError {
  readonly code = "already_completed";
  constructor() {
    super(
      "The request with this Idempotency-Key has run, and its answer cannot be given again: it was a stream, was larger " +
        "than what is kept, or its client went away. What it cost stands in your usage. Use a new key to run it again.",
    );
  }
}

/** Who ran it died, or the database was away when it ended. */
export class AnswerLost extends ServiceError {
  readonly code = "answer_lost";
  constructor() {
    super(
      "The request with this Idempotency-Key began, and what became of it is not known: it may have run and cost " +
        "something, which your usage shows. It is not run again by itself. Use a new key to run it again.",
    );
  }
}

export class BadIdempotencyKey extends ServiceError {
  readonly code = "bad_idempotency_key";
  constructor() {
    super("An Idempotency-Key has 1 to 255 printable ASCII characters, such as a UUID.", { param: "idempotency-key" });
  }
}
