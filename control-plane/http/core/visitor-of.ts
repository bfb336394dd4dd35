import type { FastifyReply, FastifyRequest } from "fastify";
import type { SignedIn, Visitor } from "../../accounts/sign-in.ts";
import { relyingPartyOf } from "../people/relying-party.ts";
import { cookieOf, deviceOf, giveCookie, giveDevice } from "../people/session.ts";

/** Who signs in by this request, from where. */
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
