// An organisation in memory, with a member of each role.
import type { Caller } from "../../control-plane/accounts/caller.ts";
import { invitationExpired, memberNotFound } from "../../control-plane/accounts/member-errors.ts";
import { type MemberRole, memberRoles } from "../../control-plane/accounts/member-role.ts";
import type { MemberRecord } from "../../control-plane/accounts/member-store.ts";
import type { Members } from "../../control-plane/accounts/members.ts";
import type { AccountId, KeyId, MemberId } from "../../proto/ids.ts";

export const organization = "u:9000000000001" as AccountId;

const idOf = (role: MemberRole) => `member-${role}` as MemberId;

/** The caller of a key or session of the member with this role. */
export const memberCaller = (role: MemberRole, change: Partial<Caller> = {}): Caller => ({
  account: organization,
  key: `key-of-${role}` as KeyId,
  displayName: "acme",
  email: organization,
  isAdmin: false,
  role: "admin",
  suspendReason: null,
  via: "key",
  models: null,
  expiresAtMs: null,
  spending: { hasAccountLimit: false, hasKeyLimit: false, token: null },
  rates: null,
  trustsUserHeaders: false,
  member: { id: idOf(role), role, person: `u:person-${role}` as AccountId },
  ...change,
});

const records: readonly MemberRecord[] = memberRoles.map((role) => ({
  id: idOf(role),
  person: `u:person-${role}` as AccountId,
  name: role,
  email: `${role}@example.com`,
  role,
  source: "invited",
  projects: [],
  createdAtMs: 1_786_000_000_000,
}));

/** `roleOf`: role of a person in the organisation. */
export function fakeMembers(roleOf: (person: AccountId) => MemberRole | undefined = () => undefined): Members {
  const get = async (_organization: AccountId, id: MemberId): Promise<MemberRecord> => {
    const found = records.find((one) => one.id === id);
    if (!found) throw memberNotFound();
    return found;
  };
  const [first] = records as [MemberRecord];
  const joined = { account: organization, displayName: "acme", teamDisplayName: "acme", member: first.id } as const;
  const record = { ...joined, role: "owner", suspendReason: null } as const;
  return {
    async actAs({ account: person }, other) {
      const role = roleOf(person);
      if (role === undefined || other !== organization) return undefined;
      return memberCaller(role, { key: "" as KeyId, via: "session", member: { id: idOf(role), role, person } });
    },
    organizations: async (person) => (roleOf(person) === undefined ? [] : [record]),
    createOrganization: async () => record,
    list: async () => records,
    get,
    holderOf: async ({ member }, named) => named ?? member?.id ?? null,
    change: async (caller, id, { role, projects }) => {
      const found = await get(caller.account, id);
      return { ...found, role: role ?? found.role, projects: projects ?? found.projects };
    },
    remove: ({ account }, id) => get(account, id),
    addServiceAccount: async (_caller, name, role) => ({ ...first, person: null, email: null, name, role }),
    invitations: async () => [],
    invite: async (_caller, wanted) => ({
      id: "invitation-1",
      ...wanted,
      invitedBy: null,
      createdAtMs: 1_786_000_000_000,
      expiresAtMs: 1_786_600_000_000,
      token: "ticket-of-invitation",
      wasMailed: false,
    }),
    withdraw: async () => {},
    offered: async () => {
      throw invitationExpired();
    },
    accept: async () => {
      throw invitationExpired();
    },
  };
}
