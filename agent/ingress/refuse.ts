// Answers that are not the engine's: refusals of requests that never reached it, and errors of those that did.
import type { ServerResponse } from "node:http";
import { type Refusal, refusalHeader, usageHeader } from "../../proto/usage.ts";

const statusOf: Readonly<Record<Refusal, number>> = {
  ticket: 401,
  unknown_instance: 404,
  busy: 429,
  not_ready: 503,
  draining: 503,
  spool: 503,
};

/** The gateway may try elsewhere: nothing was generated and nothing is billed. */
export function refuse(res: ServerResponse, refusal: Refusal, message: string, retryAfterSeconds?: number): void {
  const body = errorBody(message, "refused", refusal);
  const headers: [string, string | number][] = [[refusalHeader, refusal]];
  if (retryAfterSeconds !== undefined) headers.push(["retry-after", retryAfterSeconds]);
  sendJson(res, statusOf[refusal], body, headers);
}

/** `usage`: the encoded figures once they are on record. */
export function sendError(res: ServerResponse, status: number, message: string, code: string, usage?: string): void {
  sendJson(res, status, errorBody(message, "engine_error", code), usage ? [[usageHeader, usage]] : []);
}

export function errorBody(message: string, type: string, code: string): string {
  return JSON.stringify({ error: { message, type, code } });
}

export function sendJson(
  res: ServerResponse,
  status: number,
  body: string | Buffer,
  extra: readonly (readonly [string, string | number])[] = [],
): void {
  if (res.headersSent || res.destroyed) return;
  const headers: (string | number)[] = ["content-type", "application/json", "content-length", Buffer.byteLength(body)];
  for (const [name, value] of extra) headers.push(name, value);
  res.writeHead(status, headers as unknown as string[]);
  res.end(body);
}
