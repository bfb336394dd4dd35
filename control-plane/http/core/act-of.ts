import type { FastifyReply } from "fastify";
import type { Act } from "../../accounts/act.ts";
import type { Caller } from "../../accounts/caller.ts";
import type { Actor } from "../../accounts/store.ts";

/** The caller as the one who acts, for the audit log. */
export const actOf = (caller: Caller, reply: FastifyReply, note = ""): Act => ({
  by: caller.account,
  ip: reply.request.ip,
  note,
});

/** The same, where somebody acts on the own account. */
export const actorOf = (caller: Caller, reply: FastifyReply): Actor => ({
  account: caller.account,
  ip: reply.request.ip,
});
