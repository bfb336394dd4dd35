// The cookie that binds a sign-in at a provider to the browser that started it.
import type { FastifyReply, FastifyRequest } from "fastify";
import { readCookie, setCookie } from "../accounts/session.ts";

const name = "provider-sign-in";
const lifeS = 600;

export const providerCookieOf = (request: FastifyRequest): string | undefined => readCookie(request, name);

/** `SameSite=Lax`, because the provider's page sends the browser back by a link. */
export function giveProviderCookie(reply: FastifyReply, value: string): void {
  setCookie(reply, name, value, lifeS);
}
