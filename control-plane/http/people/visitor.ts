import { isIP } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { RelyingParty } from "../../accounts/passkeys.ts";
import type { SignedIn, Visitor } from "../../accounts/sign-in.ts";
import { originOf } from "../core/origin.ts";
import { cookieOf, deviceOf, giveCookie, giveDevice } from "./session.ts";

/** The person who signs in by this request. */
export const visitorOf = (request: FastifyRequest, publicUrl: string | undefined): Visitor => ({
  ip: request.ip,
  cookie: cookieOf(request),
  device: deviceOf(request),
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
