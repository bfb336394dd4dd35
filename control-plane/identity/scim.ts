// SCIM 2.0: an identity provider creates, changes and ends its people here, and says who is in which group. A token belongs to one
// provider, and every statement takes that provider.
import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { randomId } from "../../proto/ids.ts";
import type { CreateAccount } from "../accounts/create-account.ts";
import { type Act, bySystem } from "../act.ts";
import { ServiceError } from "../service-error.ts";
import { providerNotFound } from "./errors.ts";
import { createPerson } from "./oidc-sign-in.ts";
import { domainOf, type Providers } from "./providers.ts";
import { scimConflict, scimInvalid, scimNotFound, scimTokenInvalid } from "./scim-errors.ts";
import { groupChanges, groupFilter, groupIn, pageIn, patchedUser, userFilter, userIn } from "./scim-input.ts";
import type {
  IdentityStore,
  ProviderRow,
  ScimGroup,
  ScimOutcome,
  ScimStore,
  ScimUser,
  ScimUserFields,
} from "./store.ts";

export const scimLimits = { users: 20_000, groups: 500 } as const;

const tokenForm = /^scim_[\w-]{43}$/;

/** A provider that has shown its token. */
export interface ScimClient {
  readonly provider: ProviderRow;
  readonly act: Act;
}

export interface ListQuery {
  readonly filter?: string | undefined;
  readonly startIndex?: string | undefined;
  readonly count?: string | undefined;
}

export interface Listed<Resource> {
  readonly total: number;
  /** From 1. */
  readonly startIndex: number;
  readonly resources: readonly Resource[];
}

export function createScim(deps: {
  readonly store: ScimStore;
  readonly identities: Pick<IdentityStore, "ownerOf">;
  readonly providers: Pick<Providers, "get">;
  readonly accounts: Pick<CreateAccount, "createAccount">;
  readonly pepper: Buffer;
}) {
  const { store } = deps;
  const key = Buffer.from(hkdfSync("sha256", deps.pepper, "", "stoker scim tokens", 32));
  const lookupOf = (token: string): Buffer => createHmac("sha256", key).update(token).digest();

  async function user({ provider }: ScimClient, id: string): Promise<ScimUser> {
    const found = await store.user(provider.id, id);
    if (!found) throw scimNotFound("User");
    return found;
  }

  async function group({ provider }: ScimClient, id: string, withMembers = true): Promise<ScimGroup> {
    const found = await store.group(provider.id, id, withMembers);
    if (!found) throw scimNotFound("Group");
    return found;
  }

  /** A provider introduces people of its domains only. */
  function checkDomain({ provider }: ScimClient, { email }: ScimUserFields): void {
    if (!provider.domains.includes(domainOf(email)))
      throw scimInvalid(
        "invalidValue",
        `${domainOf(email)} is not a domain of this provider. An operator adds domains.`,
      );
  }

  async function write(
    client: ScimClient,
    id: string,
    change: (before: ScimUserFields | undefined) => ScimUserFields,
  ): Promise<ScimUser> {
    refuse(await store.changeUser(client.provider.id, id, change, client.act), "User");
    return user(client, id);
  }

  /** Returns the identity of somebody who is new to SCIM: one that signed in before, one of an existing account, or of a new one. */
  async function introduced({ provider, act }: ScimClient, fields: ScimUserFields): Promise<string> {
    const known = await store.adoptable(provider.id, fields.email);
    if (known !== undefined) return known;
    const owner = await deps.identities.ownerOf(fields.email);
    const id = randomId<"identity">(16);
    if (!owner) {
      const claims = { name: fields.displayName, preferred_username: fields.userName };
      await createPerson(deps.accounts, provider, { id, subject: null, email: fields.email, claims });
      return id;
    }
    // As at a sign-in: a provider joins no account that has chosen another proof.
    if (!owner.isVerified || owner.isProtected || owner.hasOwnProof)
      throw scimConflict("An account has this e-mail address. Its owner links it under Security in the console.");
    if ((await store.link(provider.id, id, owner.account, fields, act)) === "taken")
      throw scimConflict("A user with this userName or account exists.");
    return id;
  }

  return {
    /** Returns a new token, shown once; the one before ends. Throws providerNotFound. */
    async createToken(provider: string, act: Act): Promise<string> {
      const token = `scim_${randomBytes(32).toString("base64url")}`;
      if (!(await store.setToken(provider, lookupOf(token), act))) throw providerNotFound();
      return token;
    },
    /** Throws providerNotFound. */
    async removeToken(provider: string, act: Act): Promise<void> {
      if (!(await store.setToken(provider, null, act))) throw providerNotFound();
    },
    /** Throws scimTokenInvalid. */
    async enter(token: string | undefined, ip: string): Promise<ScimClient> {
      const id = token !== undefined && tokenForm.test(token) ? await store.providerOf(lookupOf(token)) : undefined;
      if (id === undefined) throw scimTokenInvalid();
      const provider = await deps.providers.get(id);
      return { provider, act: { ...bySystem(`SCIM of ${provider.name}`), ip } };
    },

    user,
    async users({ provider }: ScimClient, query: ListQuery): Promise<Listed<ScimUser>> {
      const page = pageIn(query.startIndex, query.count);
      const { total, rows } = await store.users(provider.id, userFilter(query.filter), page);
      return { total, startIndex: page.offset + 1, resources: rows };
    },
    /** Throws scimConflict, scimInvalid. */
    async createUser(client: ScimClient, body: unknown): Promise<ScimUser> {
      const fields = userIn(body);
      checkDomain(client, fields);
      const { provider } = client;
      const same = { attribute: "userName", value: fields.userName } as const;
      if ((await store.users(provider.id, same, { offset: 0, limit: 1 })).total > 0)
        throw scimConflict("A user with this userName exists.");
      if ((await store.countUsers(provider.id)) >= scimLimits.users)
        throw scimInvalid("tooMany", `A provider has at most ${scimLimits.users} users.`);
      try {
        return await write(client, await introduced(client, fields), () => fields);
      } catch (error) {
        if (error instanceof ServiceError && error.code === "name_taken")
          throw scimConflict("A user with this e-mail address was just created.");
        throw error;
      }
    },
    async replaceUser(client: ScimClient, id: string, body: unknown): Promise<ScimUser> {
      const fields = userIn(body);
      checkDomain(client, fields);
      return write(client, id, (before) => {
        if (!before) throw scimNotFound("User");
        return fields;
      });
    },
    async patchUser(client: ScimClient, id: string, body: unknown): Promise<ScimUser> {
      return write(client, id, (before) => {
        if (!before) throw scimNotFound("User");
        const fields = patchedUser(before, body);
        if (fields.email !== before.email) checkDomain(client, fields);
        return fields;
      });
    },
    async removeUser({ provider, act }: ScimClient, id: string): Promise<void> {
      if (!(await store.removeUser(provider.id, id, act))) throw scimNotFound("User");
    },

    group,
    async groups({ provider }: ScimClient, query: ListQuery, withMembers: boolean): Promise<Listed<ScimGroup>> {
      const page = pageIn(query.startIndex, query.count);
      const { total, rows } = await store.groups(provider.id, groupFilter(query.filter), page, withMembers);
      return { total, startIndex: page.offset + 1, resources: rows };
    },
    async createGroup(client: ScimClient, body: unknown): Promise<ScimGroup> {
      const { provider, act } = client;
      const id = randomId<"group">(16);
      refuse(await store.createGroup(provider.id, id, groupIn(body), scimLimits.groups, act), "Group");
      return group(client, id);
    },
    async replaceGroup(client: ScimClient, id: string, body: unknown): Promise<ScimGroup> {
      const { members, ...fields } = groupIn(body);
      const change = { ...fields, members: { only: members } };
      refuse(await store.changeGroup(client.provider.id, id, [change], client.act), "Group");
      return group(client, id);
    },
    async patchGroup(client: ScimClient, id: string, body: unknown): Promise<void> {
      refuse(await store.changeGroup(client.provider.id, id, groupChanges(body), client.act), "Group");
    },
    async removeGroup({ provider, act }: ScimClient, id: string): Promise<void> {
      if (!(await store.removeGroup(provider.id, id, act))) throw scimNotFound("Group");
    },
  };
}

export type Scim = ReturnType<typeof createScim>;

function refuse(outcome: ScimOutcome | "unknown", what: "User" | "Group"): void {
  switch (outcome) {
    case "done":
      return;
    case "gone":
      throw scimNotFound(what);
    case "taken":
      throw scimConflict(`A ${what.toLowerCase()} with this name exists.`);
    case "full":
      throw scimInvalid("tooMany", `A provider has at most ${scimLimits.groups} groups.`);
    case "unknown":
      throw scimInvalid("invalidValue", "A member is no user of this provider.");
  }
}
