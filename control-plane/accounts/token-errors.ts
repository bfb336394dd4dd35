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
