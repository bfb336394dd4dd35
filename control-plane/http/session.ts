// The session cookie, and what a write with it must prove: that a page of ours sent it. A cookie counts only where no key was
// given, and never on inference.
import type { IncomingHttpHeaders } from "node:http";
import { fastifyCookie } from "@fastify/cookie";
import type { FastifyReply, FastifyRequest } from "fastify";
import { InvalidApiKey } from "../accounts/errors.ts";
import { type BegunSession, type Session, type Sessions, sessionMostMs } from "../accounts/sessions.ts";
import { CsrfRefused, NoSession } from "./errors.ts";

const name = "session";
const harmless = new Set(["GET", "HEAD", "OPTIONS"]);

/** Undefined when a key is given too, in whichever carrier. */
export function sessionCookieOf(headers: IncomingHttpHeaders): string | undefined {
  if (headers.cookie === undefined || headers.authorization !== undefined) return undefined;
  if (headers["xi-api-key"] || headers["x-api-key"]) return undefined;
  return cookieOf(headers);
}

export function cookieOf(headers: IncomingHttpHeaders): string | undefined {
  return (headers.cookie && fastifyCookie.parse(headers.cookie)[name]) || undefined;
}

/** Throws InvalidApiKey, CsrfRefused. */
export async function enterBySession(sessions: Sessions, request: FastifyRequest, cookie: string): Promise<Session> {
  const session = await sessions.find(cookie);
  if (!session) throw new InvalidApiKey();
  if (harmless.has(request.method)) return session;
  checkOrigin(request);
  const token = request.headers["x-csrf-token"];
  if (typeof token !== "string") throw new CsrfRefused("There is no x-csrf-token.");
  if (!sessions.hasCsrfToken(session, token)) throw new CsrfRefused("The x-csrf-token is not this session's.");
  return session;
}

/**
 * Throws CsrfRefused where the browser says that another site's page sent the request. Every browser says so on a write;
 * one that says nothing is no browser, and has no cookie that it was not given.
 */
export function checkOrigin(request: FastifyRequest): void {
  const site = request.headers["sec-fetch-site"];
  if (site !== undefined) {
    if (site === "same-origin" || site === "none") return;
    throw new CsrfRefused("A page of another site sent this request.");
  }
  const { origin } = request.headers;
  if (origin === undefined) return;
  // The host alone: a proxy that ends TLS without being trusted leaves us not knowing the scheme.
  if (URL.canParse(origin) && new URL(origin).host === request.host.toLowerCase()) return;
  throw new CsrfRefused("A page of another site sent this request.");
}

export function giveCookie(reply: FastifyReply, session: BegunSession): void {
  setCookie(reply, session.cookie, sessionMostMs / 1000);
}

export function takeCookie(reply: FastifyReply): void {
  setCookie(reply, "", 0);
}

/** Throws NoSession where the caller came with a key. */
export function ownSession({ request }: FastifyReply): Session {
  const session = request.state?.session;
  if (!session) throw new NoSession();
  return session;
}

function setCookie(reply: FastifyReply, value: string, maxAge: number): void {
  const secure = reply.request.protocol === "https";
  const text = fastifyCookie.serialize(name, value, { httpOnly: true, sameSite: "lax", path: "/", secure, maxAge });
  reply.header("set-cookie", text).header("cache-control", "no-store");
}
