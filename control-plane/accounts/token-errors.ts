// Refusals of API keys and scoped tokens.
import { conflict, invalid, notFound } from "../service-error.ts";

export const keyNameTaken = (name: string) =>
  conflict(
    "name_taken",
    `An API key named \`${name}\` already exists in your account. Choose another name, or delete that key first.`,
    { param: "name" },
  );

export const badKeyName = (maxBytes: number) =>
  invalid(
    "bad_key_name",
    `The name of an API key must be 1 to ${maxBytes} bytes of UTF-8 without control characters.`,
    {
      param: "name",
    },
  );

export const badAllowedIps = (message: string) => invalid("bad_allowed_ips", message, { param: "allowed_ips" });

/** The change would exclude the caller's own address. */
export const shutsOutCaller = (ip: string) =>
  invalid(
    "shuts_out_caller",
    `allowed_ips does not include ${ip}, the address of this request. Add it, or use another key.`,
    { param: "allowed_ips" },
  );

export const signingKeyUnknown = (name: string) =>
  notFound("api_key_not_found", `API key \`${name}\` not found. \`GET /v1/api-tokens\` lists your keys.`, {
    param: "api_key_name",
  });

export const badExpiry = (message: string, param: string) => invalid("bad_expiry", message, { param });

export const tooManyModels = (maxBytes: number) =>
  invalid("too_many_models", `A scoped token must be at most ${maxBytes} bytes. Name fewer models.`, {
    param: "models",
  });

/** The same message for every cause: the failed check is not revealed. */
export const scopedJwtNotFound = () =>
  notFound("scoped_jwt_not_found", "Scoped token not found. Use the API key that signed it.");

export const idempotencyKeyReused = () =>
  invalid(
    "idempotency_key_reused",
    "This Idempotency-Key was used for another request within the last day. Use a new key for a new request.",
    { param: "idempotency-key", in: "header" },
  );

export const idempotencyKeyInUse = (retryAfterSeconds: number) =>
  conflict(
    "idempotency_key_in_use",
    "The request with this Idempotency-Key is still running. Retry to get its response.",
    { retryAfterSeconds },
  );

export const answerNotKept = () =>
  conflict(
    "already_completed",
    "The request with this Idempotency-Key has run, but its response was not stored: it was a stream or too large, or its " +
      "client disconnected. Your usage shows its cost; use a new key to run it again.",
  );

/** The process that ran it died, or the database was unavailable at its end. */
export const answerLost = () =>
  conflict(
    "answer_lost",
    "The request with this Idempotency-Key started, but its outcome is unknown; your usage shows whether it cost anything. " +
      "Use a new key to run it again.",
  );

export const badIdempotencyKey = () =>
  invalid("bad_idempotency_key", "An Idempotency-Key must be 1 to 255 printable ASCII characters, such as a UUID.", {
    param: "idempotency-key",
    in: "header",
  });
