// Answers that are not the engine's: refusals of requests that never reached it, and errors of those that did.
import { type Refusal, refusalHeader, usageHeader } from "../../proto/usage.ts";
import type { Answer } from "./answer.ts";

const statusOf: Readonly<Record<Refusal, number>> = {
  ticket: 401,
  unknown_instance: 404,
  busy: 429,
  not_ready: 503,
  draining: 503,
  spool: 503,
  stops_server: 422,
};

const typeOf: Readonly<Record<Refusal, string>> = {
  ticket: "authentication_error",
  unknown_instance: "invalid_request_error",
  busy: "rate_limit_error",
  not_ready: "server_error",
  draining: "server_error",
  spool: "server_error",
  stops_server: "invalid_request_error",
};

/** The gateway may retry on another instance: nothing was generated and nothing is billed. */
export function refuse(answer: Answer, refusal: Refusal, message: string, retryAfterSeconds?: number): void {
  const headers = [refusalHeader, refusal];
  if (retryAfterSeconds !== undefined) headers.push("retry-after", String(retryAfterSeconds));
  answerJson(answer, statusOf[refusal], errorBody(message, typeOf[refusal], refusal), headers);
}

/** `usage`: the encoded figures once they are on record. */
export function sendError(answer: Answer, status: number, message: string, code: string, usage?: string): void {
  answerJson(answer, status, errorBody(message, "server_error", code), usage ? [usageHeader, usage] : []);
}

/** Error body in the OpenAI format, also the payload of an error frame, which the gateway forwards unchanged. */
export function errorBody(message: string, type: string, code: string, param: string | null = null): string {
  return JSON.stringify({ error: { message, type, param, code } });
}

export function answerJson(answer: Answer, status: number, body: string, extra: readonly string[] = []): void {
  answer.whole(status, ["content-type", "application/json", ...extra], Buffer.from(body));
}
