import type { ErrorKind } from "../../service-error.ts";
import { errorKinds, type MessagesErrorType } from "./error-kinds.ts";
import type { Detail } from "./validation-detail.ts";

/** An error for a caller, before a dialect gives it its form. */
export interface Refusal {
  readonly kind: ErrorKind;
  readonly status: number;
  readonly message: string;
  readonly code: string;
  readonly param: string | undefined;
  readonly detail: readonly Detail[] | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly phase: string | undefined;
  readonly etaSeconds: number | undefined;
  /** For the log. */
  readonly cause: unknown;
}

/** `service`: native and management; `compat`: as OpenAI; `voices`: as ElevenLabs; `messages`: as Anthropic; `scim`: RFC 7644. */
export type Dialect = "service" | "compat" | "voices" | "messages" | "scim";

/**
 * Every dialect includes `detail[]` in a 422, so its body has both the validation shape and the dialect's own. The request id is where
 * the SDKs of the dialect keep a body: inside `error` for OpenAI's, inside `detail` for ElevenLabs'.
 */
export function errorBody(refusal: Refusal, dialect: Dialect, requestId: string): object {
  const { message, code, detail } = refusal;
  if (dialect === "scim") return scimError(refusal);
  if (dialect === "compat") return { error: compatError(refusal, requestId), ...(detail ? { detail } : {}) };
  if (dialect === "messages") {
    const { messagesType } = errorKinds[refusal.kind];
    return { type: "error", ...messagesError(messagesType, code, message, requestId), ...(detail ? { detail } : {}) };
  }
  if (dialect === "voices")
    return detail ? { detail, request_id: requestId } : { detail: { status: code, message, request_id: requestId } };
  return { error: message, detail: detail ?? { error: message }, code, request_id: requestId };
}

/** `scimType` is the parameter that scim-errors.ts names. */
const scimError = ({ status, message, code, param }: Refusal): object => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"],
  status: String(status),
  ...(param !== undefined && (code === "scim_invalid" || code === "scim_conflict") ? { scimType: param } : {}),
  detail: message,
});

/** Also the payload of an error frame in a stream. `requestId`: undefined for a message of a socket that started no request. */
export function compatError({ kind, message, code, param }: Refusal, requestId?: string): object {
  return { message, type: errorKinds[kind].type, param: param ?? null, code, request_id: requestId };
}

/** Also the payload of an error event in a stream. */
export const messagesError = (
  type: MessagesErrorType,
  code: string | undefined,
  message: string,
  request_id: string,
) => ({ error: { type, message, ...(code === undefined ? {} : { details: { error_code: code } }) }, request_id });
