// Replies of the pages below /login, and the fields of their forms.
import type { FastifyReply, FastifyRequest } from "fastify";
import { pagePolicy } from "./login-pages.ts";

export type AddPage = (
  method: "GET" | "POST",
  path: string,
  summary: string,
  answer: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>,
  /** `isAttempt`: the form checks a secret or sends a mail. */
  options?: { readonly isAttempt?: boolean },
) => void;

export function send(reply: FastifyReply, page: string): FastifyReply {
  return reply
    .type("text/html; charset=utf-8")
    .headers({
      "content-security-policy": pagePolicy,
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "cache-control": "no-store",
      // Not no-referrer: browsers would send forms with the Origin "null", which checkOrigin refuses.
      "referrer-policy": "same-origin",
    })
    .serializer(String)
    .send(page);
}

/** Returns a field of a form or a query; empty if it is missing. */
export function field(of: unknown, name: string): string {
  const value = (of as Record<string, unknown> | null | undefined)?.[name];
  return typeof value === "string" ? value.replaceAll("\0", "") : "";
}
