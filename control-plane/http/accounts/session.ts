// The session cookie, and proof that a page of ours sent a write with it. A cookie is used only without a key, and never for
// inference.

import { isIP } from "node:net";
import { fastifyCookie } from "@fastify/cookie";
import type { FastifyReply, FastifyRequest } from "fastify";
import { InvalidApiKey } from "../../accounts/errors.ts";
import type { RelyingParty } from "../../accounts/passkeys.ts";
import { type BegunSession, maxSessionMs, type Session, type Sessions } from "../../accounts/sessions.ts";
import type { SignedIn, Visitor } from "../../accounts/sign-in.ts";
import type { AddressLimits } from "../connections/address-limits.ts";
import { originOf } from "../core/act-of.ts";
import { csrfRefused, noSession } from "../errors/errors.ts";

type Asked = Pick<FastifyRequest, "headers" | "protocol">;

/**
 * Over TLS a `__Host-` cookie cannot be set by a subdomain or over plain HTTP. The other name is never read over TLS, because
 * those could have set it.
 */
const nameOf = (name: string, { protocol }: Pick<FastifyRequest, "protocol">) =>
  protocol === "https" ? `__Host-${name}` : name;
const sessionName = "session";
/** Identifies a browser that has signed in before; it grants no access. */
const deviceName = "device";
const deviceMs = 365 * 86_400_000;
const harmless = new Set(["GET", "HEAD", "OPTIONS"]);

/** Returns undefined when the request also has a key in any header. */
export function sessionCookieOf(request: Asked): string | undefined {
  const { headers } = request;
  if (headers.cookie === undefined || headers.authorization !== undefined) return undefined;
  if (headers["xi-api-key"] || headers["x-api-key"]) return undefined;
  return cookieOf(request);
}

export const cookieOf = (request: Asked): string | undefined => readCookie(request, sessionName);

export const deviceOf = (request: Asked): string | undefined => readCookie(request, deviceName);

/** Throws InvalidApiKey, csrfRefused, tooManyRequests. */
export async function enterBySession(
  sessions: Sessions,
  addresses: AddressLimits,
  request: FastifyRequest,
  cookie: string,
): Promise<Session> {
  addresses.check(request.ip);
  const session = await sessions.find(cookie);
  if (!session) {
    addresses.take(request.ip);
    throw new InvalidApiKey();
  }
  addresses.authenticated(request.raw.socket);
  if (harmless.has(request.method)) return session;
  checkOrigin(request);
  const token = request.headers["x-csrf-token"];
  if (typeof token !== "string") throw csrfRefused("The header x-csrf-token is missing.");
  if (!sessions.hasCsrfToken(session, token)) throw csrfRefused("The x-csrf-token belongs to another session.");
  return session;
}

/**
 * Throws csrfRefused when the browser reports that a page of another site sent the request. Every browser reports it for a write;
 * clients that do not are not browsers and have only cookies that they were given.
 */
export function checkOrigin(request: FastifyRequest): void {
  const site = request.headers["sec-fetch-site"];
  if (site !== undefined) {
    if (site === "same-origin" || site === "none") return;
    throw csrfRefused("A page of another site sent this request.");
  }
  const { origin } = request.headers;
  if (origin === undefined) return;
  // Only the host: behind an untrusted TLS proxy the scheme is unknown.
  if (URL.canParse(origin) && new URL(origin).host === request.host.toLowerCase()) return;
  throw csrfRefused("A page of another site sent this request.");
}

/** Throws csrfRefused when the browser reports that a page loads the address, for instance as an image, and shows it to nobody. */
export function checkNavigation({ headers }: FastifyRequest): void {
  const target = headers["sec-fetch-dest"];
  if (target !== undefined && target !== "document")
    throw csrfRefused("Open this address in a window of your browser; a page cannot load it.");
}

export function giveCookie(reply: FastifyReply, session: BegunSession): void {
  setCookie(reply, sessionName, session.cookie, maxSessionMs / 1000);
}

export function giveDevice(reply: FastifyReply, device: string): void {
  setCookie(reply, deviceName, device, deviceMs / 1000);
}

export function takeCookie(reply: FastifyReply): void {
  setCookie(reply, sessionName, "", 0);
}

/** Throws noSession for callers with a key. */
export function ownSession({ request }: FastifyReply): Session {
  const session = request.state?.session;
  if (!session) throw noSession();
  return session;
}

export function readCookie(request: Asked, name: string): string | undefined {
  const { cookie } = request.headers;
  return (cookie && fastifyCookie.parse(cookie)[nameOf(name, request)]) || undefined;
}

/** Sets a cookie that only requests to this site carry and scripts cannot read. */
export function setCookie(reply: FastifyReply, name: string, value: string, maxAge: number): void {
  const secure = reply.request.protocol === "https";
  const text = fastifyCookie.serialize(nameOf(name, reply.request), value, {
    httpOnly: true,
    sameSite: "lax",
    path: "/",
    secure,
    maxAge,
  });
  reply.header("set-cookie", text).header("cache-control", "no-store");
}

/** The person who signs in by this request. */
export const visitorOf = (request: FastifyRequest, publicUrl: string | undefined): Visitor => ({
  ip: request.ip,
  cookie: cookieOf(request),
  device: deviceOf(request),
  userAgent: request.headers["user-agent"],
  site: relyingPartyOf(publicUrl, request),
});

export function giveCookies(reply: FastifyReply, { session, device }: SignedIn): void {
  giveCookie(reply, session);
  giveDevice(reply, device);
}

/**
 * The site that passkeys belong to: STOKER_PUBLIC_URL. Without it `localhost` only, because a client chooses the Host header.
 * Undefined: passkeys cannot be bound to this address; browsers refuse bare IP addresses.
 */
export function relyingPartyOf(publicUrl: string | undefined, request: FastifyRequest): RelyingParty | undefined {
  const url = URL.parse(originOf(publicUrl, request));
  if (!url || isIP(url.hostname.replace(/[[\]]/g, "")) !== 0) return undefined;
  if (publicUrl === undefined && url.hostname !== "localhost") return undefined;
  return { id: url.hostname, origin: url.origin };
}
