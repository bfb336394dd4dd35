import { conflict, forbidden, invalid, notFound, ServiceError, unauthenticated } from "../service-error.ts";

const refusals = {
  totp: "The code is wrong or was already used. Wait for the next one.",
  recovery_code: "The recovery code is wrong or was already used. Try another one.",
  passkey: "The passkey was not accepted. Try again, or use another passkey.",
} as const;

export type FactorForm = keyof typeof refusals;

/** The same message for every cause: wrong, used, or of another account. `form`: the kind of proof. */
export class WrongSecondFactor extends ServiceError {
  constructor(form: FactorForm = "passkey") {
    super("unauthenticated", "wrong_second_factor", refusals[form]);
  }
}

/** The ticket is unknown, used or expired. */
export const signInExpired = () =>
  unauthenticated("sign_in_expired", "This step of the sign-in has expired or was used. Start again.");

/** `maxAgeMs`: maximum age of the session's last sign-in. */
export const reauthenticationRequired = (maxAgeMs: number) =>
  forbidden(
    "reauthentication_required",
    `This needs a sign-in that is at most ${maxAgeMs / 60_000} minutes old. Sign in again and repeat the request.`,
  );

/** The operator requires a second factor, and the account has none. */
export const secondFactorRequired = () =>
  forbidden(
    "second_factor_required",
    "This installation requires a second factor. Set one up under Security in the console, or by POST /v1/me/factors.",
  );

/** The caller used an API key. */
export const sessionRequired = () =>
  forbidden(
    "session_required",
    "Changing second factors, or the password of an account that has one, requires a session. " +
      "Sign in to the console in a browser.",
  );

export const weakPassword = (message: string) => invalid("weak_password", message, { param: "password" });

export const factorConflict = (message: string) => conflict("second_factor_conflict", message);

export const factorNotFound = () => notFound("second_factor_not_found", "Second factor not found.");
