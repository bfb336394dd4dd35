// The session cookie, and what a write with it must prove: that a page of ours sent it. A cookie counts only where no key was
// given, and never on inference.
import { fastifyCookie } from "@fastify/cookie";
import type { FastifyReply, FastifyRequest } from "fastify";
import { InvalidApiKey } from "../../accounts/errors.ts";
import { type BegunSession, maxSessionMs, type Session, type Sessions } from "../../accounts/sessions.ts";
import type { AddressLimits } from "../connections/address-limits.ts";
import { csrfRefused, noSession } from "../errors/errors.ts";

type Asked = Pick<FastifyRequest, "headers" | "protocol">;

/**
 * Over TLS the browser keeps `__Host-` cookies for this very host, and takes them from no subdomain and no plain HTTP. Each name counts
 * only where it is given out: a cookie that a neighbour or plain HTTP could have set is never read over TLS.
 */
const nameOf = (name: string, { protocol }: Pick<FastifyRequest, "protocol">) =>
  protocol === "https" ? `__Host-${name}` : name;
const sessionName = "session";
/** Names a browser that an account signed in with before; it opens nothing. */
const deviceName = "device";
const deviceMs = 365 * 86_400_000;
const harmless = new Set(["GET", "HEAD", "OPTIONS"]);

/** Undefined when a key is given too, in whichever carrier. */
export function sessionCookieOf(request: Asked): string | undefined {
  const { headers } = request;
  if (headers.cookie === undefined || headers.authorization !== undefined) return undefined;
  if (headers["xi-api-key"] || headers["x-api-key"]) return undefined;
  return cookieOf(request);
}

export const cookieOf = (request: Asked): string | undefined => read(request, sessionName);

export const deviceOf = (request: Asked): string | undefined => read(request, deviceName);

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
  if (typeof token !== "string") throw csrfRefused("There is no x-csrf-token.");
  if (!sessions.hasCsrfToken(session, token)) throw csrfRefused("The x-csrf-token is not this session's.");
  return session;
}

/**
 * Throws csrfRefused where the browser says that another site's page sent the request. Every browser says so on a write;
 * one that says nothing is no browser, and has no cookie that it was not given.
 */
export function checkOrigin(request: FastifyRequest): void {
  const site = request.headers["sec-fetch-site"];
  if (site !== undefined) {
    if (site === "same-origin" || site === "none") return;
    throw csrfRefused("A page of another site sent this request.");
  }
  const { origin } = request.headers;
  if (origin === undefined) return;
  // The host alone: a proxy that ends TLS without being trusted leaves us not knowing the scheme.
  if (URL.canParse(origin) && new URL(origin).host === request.host.toLowerCase()) return;
  throw csrfRefused("A page of another site sent this request.");
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

/** Throws noSession where the caller came with a key. */
export function ownSession({ request }: FastifyReply): Session {
  const session = request.state?.session;
  if (!session) throw noSession();
  return session;
}

function read(request: Asked, name: string): string | undefined {
  const { cookie } = request.headers;
  return (cookie && fastifyCookie.parse(cookie)[nameOf(name, request)]) || undefined;
}

function setCookie(reply: FastifyReply, name: string, value: string, maxAge: number): void {
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
