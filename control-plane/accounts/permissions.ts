// The one table of rights: which roles of API keys, and which roles of an organisation's members, hold each. The edge checks it, the
// API lists it (GET /v1/permissions), the console reads it from there, and a generated test sends each request as each role.
import type { Act } from "../act.ts";
import type { Caller, CallerRole } from "./caller.ts";
import { memberRoleNotAllowed, notAdmin, notAMember, personalOnly, roleNotAllowed } from "./errors.ts";
import { type MemberRole, memberRoles } from "./member-role.ts";

interface Holders {
  readonly keys: readonly CallerRole[];
  readonly members: readonly MemberRole[];
}

const reading = ["read", "admin"] as const;
const admin = ["admin"] as const;

/**
 * A caller needs the right from the role of its key and, in an organisation, from the role of its member. A browser session has the key
 * role `admin`; an account without members has no other role.
 */
export const permissions = {
  /** List the models that can be called. */
  listModels: { keys: ["inference", "read", "admin"], members: memberRoles },
  infer: { keys: ["inference", "admin"], members: ["owner", "admin", "developer"] },
  /** Open realtime sessions. */
  realtime: { keys: ["inference", "realtime", "admin"], members: ["owner", "admin", "developer"] },
  /** Profile, members and the masked keys. */
  readAccount: { keys: reading, members: memberRoles },
  /** Deployments, containers, files, requests, logs and everything else that has no right of its own. */
  read: { keys: reading, members: ["owner", "admin", "developer", "viewer"] },
  /** Usage and its cost. */
  readUsage: { keys: reading, members: memberRoles },
  /** Funds, invoices, limits and payment settings. */
  readMoney: { keys: reading, members: ["owner", "admin", "billing", "viewer"] },
  /** Models, deployments, containers, agents, files, webhooks. */
  change: { keys: admin, members: ["owner", "admin", "developer"] },
  /** Spending limits, payments, payment settings. */
  changeMoney: { keys: admin, members: ["owner", "admin", "billing"] },
  /** Create, change and revoke keys of one's own, which never exceed one's role. */
  ownKeys: { keys: admin, members: memberRoles },
  /** The same with the keys of every member and service account. */
  manageKeys: { keys: admin, members: ["owner", "admin"] },
  /** Invite and remove members and service accounts, and change their roles. */
  manageMembers: { keys: admin, members: ["owner", "admin"] },
  /** End one's own membership. */
  leave: { keys: admin, members: memberRoles },
  /** Names and profile of the account. */
  manageAccount: { keys: admin, members: ["owner", "admin"] },
  closeAccount: { keys: admin, members: ["owner"] },
  /** How a person signs in: sessions and second factors. Not in an organisation, which nobody signs in to. */
  readSignIn: { keys: reading, members: [] },
  /** The same with the password, the address, and the person's memberships. */
  changeSignIn: { keys: admin, members: [] },
  /** Operate the installation. */
  operate: { keys: admin, members: [] },
} as const satisfies Readonly<Record<string, Holders>>;

/** Roles of members that hold `manageKeys`, for the store. */
export type KeyManagers = readonly MemberRole[] & (typeof permissions)["manageKeys"]["members"];

export type Right = keyof typeof permissions;
export const rights = Object.keys(permissions) as readonly Right[];

type Roles = Pick<Caller, "role" | "member" | "isAdmin">;

/** Undefined: the caller holds the right. `needed` undefined: open to everyone. */
export function roleRefusal(needed: Right | undefined, { role, member, isAdmin }: Roles): Error | undefined {
  if (needed === undefined) return undefined;
  const { keys }: Holders = permissions[needed];
  if (!keys.includes(role)) return roleNotAllowed(role, keys);
  if (needed === "operate") return isAdmin && !member ? undefined : notAdmin();
  return memberRefusal(needed, member);
}

/** The same by the role of the member only. Undefined member: the account itself. */
export function memberRefusal(needed: Right, member: Caller["member"]): Error | undefined {
  const { members }: Holders = permissions[needed];
  if (!member || members.includes(member.role)) return undefined;
  return members.length === 0 ? personalOnly() : memberRoleNotAllowed(member.role, members);
}

/** Lets the store check the right again in the transaction of the change. The account itself needs no check. */
export function guarded(needed: Right, { member }: Pick<Caller, "member">, act: Act): Act {
  if (!member) return act;
  const check = (role: string | undefined): void => {
    const now = role as MemberRole | undefined;
    const refusal = now === undefined ? notAMember() : memberRefusal(needed, { ...member, role: now });
    if (refusal) throw refusal;
  };
  return { ...act, guard: { member: member.id, check } };
}

export const holds = (needed: Right, caller: Roles): boolean => roleRefusal(needed, caller) === undefined;

/** True if `role` holds every right of `other`: nobody grants or takes a role above their own. */
export const includesRole = (role: MemberRole, other: MemberRole): boolean =>
  rights.every((right) => {
    const { members }: Holders = permissions[right];
    return !members.includes(other) || members.includes(role);
  });
