// Permissions of API keys by role.
import type { Caller, CallerRole } from "../../accounts/caller.ts";
import { notAdmin, roleNotAllowed } from "../../accounts/errors.ts";

/** Header that names the account whose records an operator reads. */
export const actAsHeader = "x-stoker-act-as";

export type NeededRight = "listModels" | "infer" | "realtime" | "read" | "change" | "operate";

const rolesWith: Readonly<Record<NeededRight, readonly CallerRole[]>> = {
  listModels: ["inference", "read", "admin"],
  infer: ["inference", "admin"],
  realtime: ["inference", "realtime", "admin"],
  read: ["read", "admin"],
  change: ["admin"],
  operate: ["admin"],
};

/** `needed` undefined: open to everyone. */
export function roleRefusal(needed: NeededRight | undefined, caller: Caller): Error | undefined {
  if (needed === undefined) return undefined;
  const roles = rolesWith[needed];
  if (!roles.includes(caller.role)) return roleNotAllowed(caller.role, roles);
  return needed === "operate" && !caller.isAdmin ? notAdmin() : undefined;
}
