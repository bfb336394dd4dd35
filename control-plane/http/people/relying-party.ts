import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import type { RelyingParty } from "../../accounts/passkeys.ts";
import { originOf } from "../core/origin.ts";

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
