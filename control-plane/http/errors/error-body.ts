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

/** `service`: native and management; `compat`: as OpenAI; `voices`: as ElevenLabs; `messages`: as Anthropic. */
export type Dialect = "service" | "compat" | "voices" | "messages";

/** Every dialect includes `detail[]` in a 422, so its body has both the validation shape and the dialect's own. */
export function errorBody(refusal: Refusal, dialect: Dialect, requestId: string): object {
  const { message, code, detail } = refusal;
  if (dialect === "compat") return { error: compatError(refusal), ...(detail ? { detail } : {}) };
  if (dialect === "messages") {
    const { messagesType } = errorKinds[refusal.kind];
    return { type: "error", ...messagesError(messagesType, code, message, requestId), ...(detail ? { detail } : {}) };
  }
  if (dialect === "voices") return { detail: detail ?? { status: code, message } };
  return { error: message, detail: detail ?? { error: message }, code, request_id: requestId };
}

/** Also the payload of an error frame in a stream. */
export function compatError({ kind, message, code, param }: Refusal): object {
  return { message, type: errorKinds[kind].type, param: param ?? null, code };
}

/** Also the payload of an error event in a stream. */
export const messagesError = (
  type: MessagesErrorType,
  code: string | undefined,
  message: string,
  request_id: string,
) => ({ error: { type, message, ...(code === undefined ? {} : { details: { error_code: code } }) }, request_id });
