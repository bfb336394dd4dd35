import { ServiceError } from "../service-error.ts";

export class CliLoginUsed extends ServiceError {
  readonly code = "login_used";
  constructor() {
    super("This login was answered already, or has run out. Run `stoker login` again.");
  }
}

export class CliLoginTimedOut extends ServiceError {
  readonly code = "login_timed_out";
  constructor() {
    super("Nobody has confirmed this login in a browser so far. Ask again, or run `stoker login` anew.");
  }
}

export class CliLoginBusy extends ServiceError {
  readonly code = "login_busy";
  constructor() {
    super("Too many command lines wait for their login. Try again in a few seconds.", { retryAfterSeconds: 5 });
  }
}
