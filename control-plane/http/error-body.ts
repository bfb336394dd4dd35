import type { Refusal } from "./refusal.ts";

/** native and management; OpenAI-compatible; ElevenLabs-compatible. */
export type Dialect = "service" | "compat" | "voices";

/** A 422 carries `detail[]` in every dialect, so one body is the validation shape and the dialect's own. */
export function errorBody(refusal: Refusal, dialect: Dialect, requestId: string): object {
  const { message, code, detail } = refusal;
  if (dialect === "compat") return { error: compatError(refusal), ...(detail ? { detail } : {}) };
  if (dialect === "voices") return { detail: detail ?? { status: code ?? "error", message } };
  return { error: message, detail: detail ?? { error: message }, code: code ?? null, request_id: requestId };
}

/** Also the payload of an error frame in a stream. */
export function compatError({ status, message, code, param }: Refusal): object {
  return { message, type: typeOf(status), param: param ?? null, code: code ?? null };
}

function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}
