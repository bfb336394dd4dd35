import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "../../accounts/caller.ts";
import type { Act, Actor } from "../../act.ts";

/** Header that names the account that a member acts in, or whose records an operator reads. */
export const actAsHeader = "x-stoker-act-as";

/** Returns scheme and host for links to our own pages: as configured, otherwise as this client reached us. */
export function originOf(publicUrl: string | undefined, request: FastifyRequest): string {
  return publicUrl ?? `${request.protocol}://${request.host}`;
}

/** Returns the caller as the actor of an audit log entry. */
export const actOf = (caller: Caller, reply: FastifyReply, note = ""): Act => ({
  by: actorIdOf(caller),
  ip: reply.request.ip,
  note,
});

/** Returns the caller as the actor on its own account. */
export const actorOf = (caller: Caller, reply: FastifyReply): Actor => ({
  account: caller.account,
  ip: reply.request.ip,
  ...(caller.member && { by: actorIdOf(caller) }),
});

/** The person, or the service account, or an account that acts for itself. */
export const actorIdOf = ({ account, member }: Caller): string => member?.person ?? member?.id ?? account;
