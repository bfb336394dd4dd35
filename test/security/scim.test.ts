// SCIM over the real edge and a real PostgreSQL, as Okta and Entra ID send it: what ends with a person, and what a token cannot reach.
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { createAuthenticator } from "../../control-plane/accounts/authenticate.ts";
import type { Caller } from "../../control-plane/accounts/caller.ts";
import { noRules } from "../../control-plane/accounts/key-rules.ts";
import type { NewProvider } from "../../control-plane/identity/providers.ts";
import { createChangeFeed } from "../../control-plane/store/core/change-feed.ts";
import type { AccountId, MemberId, ProjectId } from "../../proto/ids.ts";
import { act, closeIdentityEdge, identityStage, ip, signIn } from "../fakes/identity-stage.ts";
import { promisedMs } from "../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../fakes/postgres.ts";
import { log } from "../integration/billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(async () => {
  await closeIdentityEdge();
  await postgres.stop();
});

type Json = Record<string, unknown> & { readonly id?: string };

async function stage(change: Partial<NewProvider> = {}) {
  const all = await identityStage(postgres);
  const { features, edge, makeAccount, addProvider, world } = all;
  const owner = await makeAccount("founder");
  const { account: organization } = await features.members.createOrganization(owner, "acme", act);
  const provider = await addProvider({
    organization,
    roleOfGroup: { engineers: "developer", leads: "admin" },
    ...change,
  });
  const clientOf = async (id: string) => {
    const token = await features.scim.createToken(id, act);
    return async (method: string, path: string, body?: unknown) => {
      const response = await fetch(`${edge.url}/scim/v2${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/scim+json" },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      return {
        status: response.status,
        type: response.headers.get("content-type"),
        json: (text ? JSON.parse(text) : {}) as Json,
      };
    };
  };
  const scim = await clientOf(provider.id);
  const user = (name: string, change: object = {}) => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
    userName: `${name}@example.com`,
    name: { givenName: name, familyName: "Example" },
    emails: [{ value: `${name}@example.com`, primary: true, type: "work" }],
    active: true,
    ...change,
  });
  const create = async (name: string, change: object = {}) => {
    const { status, json } = await scim("POST", "/Users", user(name, change));
    expect(status, JSON.stringify(json)).toBe(201);
    return json.id as string;
  };
  const accountOf = async (email: string) =>
    (await world.pool.query("select account_id from account where lower(email) = lower($1)", [email])).rows[0]
      ?.account_id as AccountId;
  const roleOf = async (account: AccountId) =>
    (await features.members.list(organization)).find(({ person }) => person === account)?.role;
  const replica = async () => {
    const feed = createChangeFeed({ pool: world.pool, log });
    const { accountStore: store, secrets } = world;
    const auth = createAuthenticator({ store, secrets, log, registry: new Registry(), changes: feed });
    await feed.start();
    onTestFinished(() => feed.stop());
    return async (secret: string) => auth.authenticate(secret, ip);
  };
  return { ...all, owner, organization, provider, clientOf, scim, user, create, accountOf, roleOf, replica };
}

const patch = (...Operations: object[]) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
  Operations,
});

describe("deprovisioning", () => {
  it.each([
    ["PATCH of Okta", "PATCH", patch({ op: "replace", value: { active: false } })],
    ["PATCH of Entra ID", "PATCH", patch({ op: "Replace", path: "active", value: "False" })],
    ["DELETE", "DELETE", undefined],
  ])("by %s ends sessions and keys on two control planes within 5 seconds", async (_what, method, body) => {
    const { scim, create, accountOf, roleOf, provider, sessionOf, features, tokens, organization, replica } =
      await stage();
    const id = await create("grace");
    provider.server.person = { sub: "g1", email: "grace@example.com", email_verified: true, groups: ["engineers"] };
    const { browser } = await signIn(provider);
    const person = await accountOf("grace@example.com");
    expect((await sessionOf(browser))?.caller.account).toBe(person);
    expect(await roleOf(person)).toBe("developer");
    const member = (await features.members.list(organization)).find((one) => one.person === person);
    const shared = await tokens.create(organization, "hers", noRules, act, null, { member: member?.id ?? null });
    const own = await tokens.create(person, "own", noRules, act);
    const [first, second] = [await replica(), await replica()];
    for (const control of [first, second])
      for (const { token } of [shared, own]) expect(await control(token)).toBeDefined();

    const startMs = performance.now();
    expect((await scim(method, `/Users/${id}`, body)).status).toBe(method === "DELETE" ? 204 : 200);
    expect(await sessionOf(browser)).toBeUndefined();
    for (const control of [first, second])
      for (const { token } of [shared, own])
        await vi.waitFor(
          async () => expect(await control(token).catch((error) => error.code)).toBe("invalid_api_key"),
          {
            timeout: promisedMs(5_000),
            interval: 20,
          },
        );
    expect(performance.now() - startMs).toBeLessThan(promisedMs(5_000));
    expect(await roleOf(person)).toBeUndefined();
    const again = await signIn(provider);
    expect(again.response.status).toBe(403);
    expect(again.text).toContain("deactivated your access");
    // Nor by another proof: the provider created the account.
    await expect(features.sessions.begin({ account: person, ip }, ["passkey"])).rejects.toMatchObject({
      code: "sign_in_expired",
    });
  });

  it("ends workload identities of an account that the provider created, and its keys in other organizations", async () => {
    const { scim, create, accountOf, features, makeAccount, tokens, world, organization } = await stage({
      defaultRole: "viewer",
    });
    const id = await create("grace");
    const person = await accountOf("grace@example.com");
    const { account: other } = await features.members.createOrganization(await makeAccount("eve"), "other", act);
    const join = (to: AccountId, member: string) =>
      world.pool.query(
        "insert into member (member_id, account_id, person_id, name, role, source) values ($1, $2, $3, '', 'developer', 'invited')",
        [member, to, person],
      );
    await join(other, "grace-in-other");
    const rule = (account: AccountId, member: MemberId | null) =>
      features.workloads.create(
        account,
        {
          ...{ name: "ci", issuer: "https://ci.example.com", audience: "a", subject: "s", claims: {} },
          ...{ role: "inference", allowedModels: null, lifeSeconds: 600, member, project: null },
        },
        act,
      );
    const own = (await features.members.list(organization)).find((one) => one.person === person)?.id as MemberId;
    await rule(person, null);
    await rule(organization, own);
    await rule(other, "grace-in-other" as MemberId);
    const key = await tokens.create(other, "hers", noRules, act, null, { member: "grace-in-other" as MemberId });
    await scim("PATCH", `/Users/${id}`, patch({ op: "replace", path: "active", value: false }));
    for (const account of [person, organization, other]) expect(await features.workloads.list(account)).toEqual([]);
    expect(await tokens.get(other, key.token)).toBeUndefined();
    // As an exchange that was in progress.
    await expect(tokens.create(person, "late", noRules, act)).rejects.toMatchObject({ code: "invalid_api_key" });
  });

  it("is not undone by another change of the same person at the same time", async () => {
    const { scim, create, accountOf, world } = await stage({ defaultRole: "viewer" });
    const id = await create("ada");
    const client = await world.pool.connect();
    try {
      await client.query("begin");
      await client.query("select from identity where identity_id = $1 for update", [id]);
      const rename = scim("PATCH", `/Users/${id}`, patch({ op: "replace", path: "displayName", value: "Ada" }));
      await vi.waitFor(async () => {
        const { rows } = await world.pool.query(
          "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        );
        expect(rows).toHaveLength(1);
      });
      await client.query("update identity set is_active = false where identity_id = $1", [id]);
      await client.query("commit");
      expect((await rename).json).toMatchObject({ displayName: "Ada", active: false });
    } finally {
      client.release();
    }
    expect(await accountOf("ada@example.com")).toBeDefined();
  });

  it("leaves the own account of somebody who had it before, and ends what the provider opened", async () => {
    const { scim, create, makeAccount, provider, sessionOf, features, tokens, roleOf, link } = await stage({
      defaultRole: "viewer",
    });
    const person = await makeAccount("ada");
    await link(person, provider.id, "sub-of-ada");
    const own = await features.sessions.begin({ account: person, ip }, ["password"]);
    const key = await tokens.create(person, "own", noRules, act);
    const id = await create("ada");
    expect(await roleOf(person)).toBe("viewer");
    const { browser } = await signIn(provider);
    expect(await sessionOf(browser)).toBeDefined();
    await scim("PATCH", `/Users/${id}`, patch({ op: "replace", path: "active", value: false }));
    expect(await sessionOf(browser)).toBeUndefined();
    expect(await features.sessions.find(own.cookie)).toBeDefined();
    expect(await tokens.get(person, key.token)).toBeDefined();
    expect(await roleOf(person)).toBeUndefined();
  });

  it("ends no key of an operator, also not of one whose account the provider created", async () => {
    const { scim, create, accountOf, features, tokens, world } = await stage();
    const id = await create("ada");
    const person = await accountOf("ada@example.com");
    await world.pool.query("update account set is_admin = true where account_id = $1", [person]);
    const key = await tokens.create(person, "own", noRules, act);
    const own = await features.sessions.begin({ account: person, ip }, ["passkey"]);
    await scim("PATCH", `/Users/${id}`, patch({ op: "replace", value: { active: false } }));
    expect(await tokens.get(person, key.token)).toBeDefined();
    expect(await features.sessions.find(own.cookie)).toBeDefined();
    await expect(features.sessions.begin({ account: person, ip }, ["passkey"])).resolves.toBeDefined();
  });

  it("lets a reactivated person sign in again with their role, and without the earlier keys", async () => {
    const { scim, create, accountOf, provider, sessionOf, roleOf, tokens } = await stage({ defaultRole: "viewer" });
    const id = await create("ada");
    const person = await accountOf("ada@example.com");
    const key = await tokens.create(person, "own", noRules, act);
    await scim("PATCH", `/Users/${id}`, patch({ op: "replace", value: { active: false } }));
    await scim("PATCH", `/Users/${id}`, patch({ op: "replace", value: { active: true } }));
    expect(await roleOf(person)).toBe("viewer");
    expect(await sessionOf((await signIn(provider)).browser)).toBeDefined();
    expect(await tokens.get(person, key.token)).toBeUndefined();
  });

  it("keeps the organisation's last owner, and revokes their keys in it", async () => {
    const { scim, create, organization, owner, roleOf, features, tokens, link, provider } = await stage();
    await link(owner, provider.id, "founder");
    const id = await create("founder");
    const member = (await features.members.list(organization)).find((one) => one.person === owner);
    const key = await tokens.create(organization, "owner", noRules, act, null, { member: member?.id ?? null });
    await scim("DELETE", `/Users/${id}`);
    expect(await roleOf(owner)).toBe("owner");
    expect(await tokens.get(organization, key.token)).toBeUndefined();
  });
});

describe("groups", () => {
  it("decide on roles, as Okta and Entra ID change them", async () => {
    const { scim, create, accountOf, roleOf } = await stage({ defaultRole: "viewer" });
    const [ada, bob] = [await create("ada"), await create("bob")];
    const people = await Promise.all([accountOf("ada@example.com"), accountOf("bob@example.com")]);
    const roles = () => Promise.all(people.map(roleOf));
    expect(await roles()).toEqual(["viewer", "viewer"]);
    const group = await scim("POST", "/Groups", { displayName: "engineers", members: [{ value: ada }] });
    expect(group.status).toBe(201);
    expect(await roles()).toEqual(["developer", "viewer"]);
    const path = `/Groups/${group.json.id}`;
    expect((await scim("PATCH", path, patch({ op: "add", path: "members", value: [{ value: bob }] }))).status).toBe(
      204,
    );
    expect(await roles()).toEqual(["developer", "developer"]);
    await scim("PATCH", path, patch({ op: "remove", path: `members[value eq "${ada}"]` }));
    expect(await roles()).toEqual(["viewer", "developer"]);
    await scim("PATCH", path, patch({ op: "Remove", path: "members", value: [{ value: bob }] }));
    expect(await roles()).toEqual(["viewer", "viewer"]);
    await scim("PUT", path, { displayName: "leads", members: [{ value: ada }, { value: bob }] });
    expect(await roles()).toEqual(["admin", "admin"]);
    expect((await scim("GET", `/Users/${ada}`)).json["groups"]).toMatchObject([{ display: "leads" }]);
    await scim("PATCH", path, patch({ op: "replace", value: { id: group.json.id, displayName: "engineers" } }));
    expect(await roles()).toEqual(["developer", "developer"]);
    expect((await scim("DELETE", path)).status).toBe(204);
    expect(await roles()).toEqual(["viewer", "viewer"]);
  });

  it("give the projects of all groups of a person, whose later ones a person chose, until the groups give others", async () => {
    const all = await stage({ defaultRole: "viewer" });
    const { scim, create, accountOf, features, organization, owner, provider } = all;
    const admin = await features.members.actAs(
      { account: owner, expiresAtMs: null } as unknown as Caller,
      organization,
    );
    if (!admin) throw new Error("the founder is no member");
    const made = async (name: string) => (await features.projects.create(organization, name, null, act)).project;
    const [search, ads, other] = [await made("search"), await made("ads"), await made("other")];
    await expect(
      features.identityProviders.change(provider.id, { projectsOfGroup: { engineers: [search] } }, act),
    ).rejects.toMatchObject({ param: "default_project_ids" });
    const rules = { defaultProjects: [other], projectsOfGroup: { engineers: [search], leads: [ads, search] } };
    await features.identityProviders.change(provider.id, rules, act);
    await expect(
      features.identityProviders.change(provider.id, { defaultProjects: ["unknown" as ProjectId] }, act),
    ).rejects.toMatchObject({ param: "projects_of_group" });
    await expect(features.identityProviders.change(provider.id, { organization: null }, act)).rejects.toMatchObject({
      param: "projects_of_group",
    });
    for (const project of [search, other])
      await expect(features.projects.end(organization, project, act)).rejects.toMatchObject({
        code: "project_has_keys",
      });
    const ada = await create("ada");
    const person = await accountOf("ada@example.com");
    const member = async () => (await features.members.list(organization)).find((one) => one.person === person);
    expect((await member())?.projects).toEqual([other]);
    const groups = await Promise.all(
      ["engineers", "leads"].map(async (displayName) => (await scim("POST", "/Groups", { displayName })).json.id),
    );
    const enter = (index: number, op: "add" | "remove") =>
      scim(
        "PATCH",
        `/Groups/${groups[index]}`,
        op === "add"
          ? patch({ op, path: "members", value: [{ value: ada }] })
          : patch({ op, path: `members[value eq "${ada}"]` }),
      );
    await enter(0, "add");
    expect((await member())?.projects).toEqual([search]);
    await enter(1, "add");
    expect(await member()).toMatchObject({ role: "admin", projects: [search, ads] });
    // A person's choice, which a change of the role leaves alone.
    const { id } = (await member()) as { id: MemberId };
    await features.members.change(admin, id, { projects: [other] }, act);
    await features.identityProviders.change(provider.id, { roleOfGroup: { engineers: "developer" } }, act);
    await scim("PATCH", `/Users/${ada}`, patch({ op: "replace", value: { active: true } }));
    await enter(1, "add");
    expect((await member())?.projects).toEqual([other]);
    await enter(0, "remove");
    expect((await member())?.projects).toEqual([ads, search]);
    await enter(1, "remove");
    expect((await member())?.projects).toEqual([other]);
  });

  it("change by all operations of a request or by none", async () => {
    const { scim, create, accountOf, roleOf } = await stage({ defaultRole: "viewer" });
    const ada = await create("ada");
    const refused = await scim("POST", "/Groups", {
      displayName: "engineers",
      members: [{ value: ada }, { value: "x" }],
    });
    expect([refused.status, (await scim("GET", "/Groups")).json["totalResults"]]).toEqual([400, 0]);
    const path = `/Groups/${(await scim("POST", "/Groups", { displayName: "engineers" })).json.id}`;
    const half = patch(
      { op: "add", path: "members", value: [{ value: ada }] },
      { op: "replace", path: "displayName", value: "leads" },
      { op: "add", path: "members", value: [{ value: "x" }] },
    );
    expect((await scim("PATCH", path, half)).status).toBe(400);
    expect((await scim("GET", path)).json).toMatchObject({ displayName: "engineers", members: [] });
    expect(await roleOf(await accountOf("ada@example.com"))).toBe("viewer");
  });

  it("change only the roles that differ, and refuse people above the organization's limit once", async () => {
    const { scim, provider, world, organization } = await stage();
    await world.pool.query(
      `with people as (
         insert into account (account_id, email, display_name, wrapped_dek, kek_version)
           select 'p' || n, 'p' || n || '@example.com', 'p' || n, '', 1 from generate_series(1, 600) n returning account_id)
       insert into identity (identity_id, provider_id, account_id, email, is_managed, user_name)
         select account_id, $1, account_id, account_id || '@example.com', false, account_id from people`,
      [provider.id],
    );
    const group = (await scim("POST", "/Groups", { displayName: "others" })).json.id as string;
    await world.pool.query(
      "insert into scim_group_member select $1, identity_id from identity where identity_id like 'p%'",
      [group],
    );
    const rename = async (displayName: string) =>
      expect(
        (await scim("PATCH", `/Groups/${group}`, patch({ op: "replace", path: "displayName", value: displayName })))
          .status,
      ).toBe(204);
    const members = async () =>
      (await world.pool.query("select role, count(*)::int from member where source = 'provider' group by role")).rows;
    const refusals = async () =>
      (await world.pool.query("select after from audit where action = 'member.add_refused'")).rows;
    await rename("more others");
    expect([await members(), await refusals()]).toEqual([[], []]);
    await rename("leads");
    // Beside the founder.
    expect(await members()).toEqual([{ role: "admin", count: 499 }]);
    expect(await refusals()).toMatchObject([{ after: { count: 101 } }]);
    expect((await scim("DELETE", `/Groups/${group}`)).status).toBe(204);
    expect(await members()).toEqual([]);
    const { rows } = await world.pool.query("select from member where account_id = $1", [organization]);
    expect(rows).toHaveLength(1);
  });

  it("are listed with a limited number of members on a page, and all of them on several", async () => {
    const { scim, provider, world } = await stage();
    await world.pool.query(
      `with people as (
         insert into account (account_id, email, display_name, wrapped_dek, kek_version)
           select 'p' || n, 'p' || n || '@example.com', 'p' || n, '', 1 from generate_series(1, 1500) n returning account_id)
       insert into identity (identity_id, provider_id, account_id, email, is_managed, user_name)
         select account_id, $1, account_id, account_id || '@example.com', false, account_id from people`,
      [provider.id],
    );
    for (const name of ["a", "b", "c"]) await scim("POST", "/Groups", { displayName: name });
    await world.pool.query(
      `insert into scim_group_member select group_id, identity_id from scim_group, identity
         where identity_id like 'p%' and scim_group.display_name in ('a', 'b')`,
    );
    type Page = {
      totalResults: number;
      itemsPerPage: number;
      Resources: { displayName: string; members: unknown[] }[];
    };
    const page = async (query: string) => (await scim("GET", `/Groups?${query}`)).json as unknown as Page;
    const sizes = ({ Resources }: Page) => Resources.map(({ displayName, members }) => [displayName, members.length]);
    const first = await page("");
    expect([first.totalResults, first.itemsPerPage, sizes(first)]).toEqual([3, 1, [["a", 1_500]]]);
    expect(sizes(await page("startIndex=2"))).toEqual([
      ["b", 1_500],
      ["c", 0],
    ]);
    expect(sizes(await page("excludedAttributes=members")).map(([name]) => name)).toEqual(["a", "b", "c"]);
  });

  it("never change a member whom people invited, nor make an owner", async () => {
    const { scim, create, owner, roleOf, link, provider } = await stage({ defaultRole: "viewer" });
    await link(owner, provider.id, "founder");
    const id = await create("founder");
    await scim("POST", "/Groups", { displayName: "engineers", members: [{ value: id }] });
    expect(await roleOf(owner)).toBe("owner");
  });

  it("never demote an owner whom they made a member, nor a member whose role a person changed", async () => {
    const { provider, features, organization, owner, roleOf, accountOf } = await stage();
    provider.server.person = { sub: "a", email: "ada@example.com", email_verified: true, groups: ["engineers"] };
    await signIn(provider);
    const ada = await accountOf("ada@example.com");
    const memberOf = async (person: AccountId) =>
      (await features.members.list(organization)).find((one) => one.person === person) as { id: MemberId };
    const { caller } = await features.sessions.begin({ account: owner, ip }, ["password"]);
    const founder = (await features.members.actAs(caller, organization)) as Caller;
    await features.members.change(founder, (await memberOf(ada)).id, { role: "viewer" }, act);
    await signIn(provider);
    expect(await roleOf(ada)).toBe("viewer");
    await features.members.change(founder, (await memberOf(ada)).id, { role: "owner" }, act);
    await features.members.remove(founder, (await memberOf(owner)).id, act);
    await signIn(provider);
    await features.identityProviders.change(provider.id, { organization: null }, act);
    expect(await roleOf(ada)).toBe("owner");
  });

  it("of the ID token count while SCIM provisions none", async () => {
    const { provider, accountOf, roleOf } = await stage();
    const enter = async (groups: unknown) => {
      provider.server.person = { sub: "s", email: "ada@example.com", email_verified: true, groups };
      expect((await signIn(provider)).response.status).toBe(303);
      return roleOf(await accountOf("ada@example.com"));
    };
    expect(await enter(["engineers", "others"])).toBe("developer");
    expect(await enter(["engineers", "leads"])).toBe("admin");
    expect(await enter("engineers")).toBe("developer");
    expect(await enter(["__proto__", "constructor"])).toBeUndefined();
    expect(await enter(undefined)).toBeUndefined();
  });
});

describe("a SCIM token", () => {
  it("reaches the people and groups of its provider only", async () => {
    const { clientOf, addProvider, create, scim } = await stage();
    const id = await create("ada");
    const group = (await scim("POST", "/Groups", { displayName: "engineers" })).json.id as string;
    const other = await clientOf((await addProvider({ domains: ["other.example"] })).id);
    for (const [method, path, body] of [
      ["GET", `/Users/${id}`],
      ["PUT", `/Users/${id}`, { userName: "eve@other.example" }],
      ["PATCH", `/Users/${id}`, patch({ op: "replace", value: { active: false } })],
      ["DELETE", `/Users/${id}`],
      ["GET", `/Groups/${group}`],
      ["PUT", `/Groups/${group}`, { displayName: "x" }],
      ["PATCH", `/Groups/${group}`, patch({ op: "replace", path: "displayName", value: "x" })],
      ["DELETE", `/Groups/${group}`],
    ] as const) {
      const { status, json } = await other(method, path, body);
      expect([method, path, status]).toEqual([method, path, 404]);
      expect(json).toMatchObject({ schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"], status: "404" });
    }
    expect((await other("GET", "/Users")).json["totalResults"]).toBe(0);
    const own = (await other("POST", "/Groups", { displayName: "engineers" })).json.id;
    const foreign = await other(
      "PATCH",
      `/Groups/${own}`,
      patch({ op: "add", path: "members", value: [{ value: id }] }),
    );
    expect([foreign.status, foreign.json["scimType"]]).toEqual([400, "invalidValue"]);
    const outside = await other("POST", "/Users", { userName: "mallory@example.com" });
    expect([outside.status, outside.json["scimType"]]).toEqual([400, "invalidValue"]);
    expect((await scim("GET", `/Users/${id}`)).json["active"]).toBe(true);
  });

  it("gives nobody the role of an address that they only typed at the provider", async () => {
    const { provider, create, scim, accountOf, roleOf } = await stage();
    const enter = async (email: string, email_verified: boolean) => {
      provider.server.person = { sub: "mallory", email, email_verified };
      expect((await signIn(provider)).response.status).toBe(303);
    };
    await enter("mallory@example.com", true);
    await enter("boss@example.com", false);
    const boss = await create("boss");
    await scim("POST", "/Groups", { displayName: "leads", members: [{ value: boss }] });
    expect(await roleOf(await accountOf("mallory@example.com"))).toBeUndefined();
    expect(await roleOf(await accountOf("boss@example.com"))).toBe("admin");
    expect((await scim("GET", `/Users/${boss}`)).json["userName"]).toBe("boss@example.com");
  });

  it("joins no operator's account, and none with an unverified address", async () => {
    const { scim, user, makeAccount } = await stage();
    await makeAccount("root", { isAdmin: true });
    await makeAccount("new", { isVerified: false });
    for (const name of ["root", "new"]) {
      const { status, json } = await scim("POST", "/Users", user(name));
      expect([status, json["scimType"]]).toEqual([409, "uniqueness"]);
    }
  });

  it("is needed, ends with the next one, and is stored as a keyed hash", async () => {
    const { edge, features, provider, scim, world } = await stage();
    const ask = async (authorization: string | undefined) =>
      (await fetch(`${edge.url}/scim/v2/Users`, { headers: authorization === undefined ? {} : { authorization } }))
        .status;
    expect(await ask(undefined)).toBe(401);
    expect(await ask(`Bearer scim_${"x".repeat(43)}`)).toBe(401);
    expect((await scim("GET", "/Users")).status).toBe(200);
    const token = await features.scim.createToken(provider.id, act);
    expect((await scim("GET", "/Users")).status).toBe(401);
    expect(await ask(`Bearer ${token}`)).toBe(200);
    const { rows } = await world.pool.query("select * from identity_provider");
    expect(JSON.stringify(rows)).not.toContain(token.slice(5));
    await features.scim.removeToken(provider.id, act);
    expect(await ask(`Bearer ${token}`)).toBe(401);
  });
});

const unknownKeys = (count: number) =>
  patch({ op: "replace", value: Object.fromEntries(Array.from({ length: count }, (_, n) => [`key${n}`, n])) });

describe("the SCIM service", () => {
  it("ignores unknown keys up to its limit, and writes one change for a request", async () => {
    const { scim, world } = await stage();
    const group = (await scim("POST", "/Groups", { displayName: "engineers" })).json.id as string;
    const changes = async () =>
      (await world.pool.query("select from audit where action = 'scim_group.change'")).rows.length;
    expect((await scim("PATCH", `/Groups/${group}`, unknownKeys(200))).status).toBe(204);
    expect(await changes()).toBe(1);
    expect((await scim("PATCH", `/Groups/${group}`, unknownKeys(201))).status).toBe(400);
    expect(await changes()).toBe(1);
  });

  it("filters and pages as providers ask", async () => {
    const { scim, create } = await stage();
    for (const name of ["ada", "bob", "cyd"]) await create(name, { externalId: `ext-${name}` });
    const found = async (query: string) =>
      (await scim("GET", `/Users?${query}`)).json as { totalResults: number; Resources: { userName: string }[] };
    const filter = (text: string) => found(new URLSearchParams({ filter: text }).toString());
    expect((await filter('userName eq "ADA@example.com"')).Resources).toMatchObject([{ userName: "ada@example.com" }]);
    expect((await filter('externalId eq "ext-bob"')).Resources).toMatchObject([{ userName: "bob@example.com" }]);
    expect((await filter('emails[type eq "work"].value eq "cyd@example.com"')).totalResults).toBe(1);
    expect((await filter(`userName eq "x' or '1'='1"`)).totalResults).toBe(0);
    expect(await found("startIndex=2&count=1")).toMatchObject({
      totalResults: 3,
      startIndex: 2,
      itemsPerPage: 1,
      Resources: [{ userName: "bob@example.com" }],
    });
    expect(await found("startIndex=-5&count=0")).toMatchObject({ totalResults: 3, startIndex: 1, Resources: [] });
  });

  it.each([
    ["an unknown filter", "GET", "/Users?filter=password%20eq%20%22x%22", undefined, 400, "invalidFilter"],
    ["a filter of another kind", "GET", "/Users?filter=userName%20co%20%22x%22", undefined, 400, "invalidFilter"],
    ["no userName", "POST", "/Users", {}, 400, "invalidValue"],
    ["an array", "POST", "/Users", [], 400, "invalidSyntax"],
    ["NUL", "POST", "/Users", { userName: "a\0@example.com" }, 400, "invalidValue"],
    ["a long name", "POST", "/Users", { userName: `${"a".repeat(400)}@example.com` }, 400, "invalidValue"],
    ["no JSON", "POST", "/Users", "{", 400, undefined],
    [
      "too many operations",
      "PATCH",
      "/Users/USER",
      patch(...Array.from({ length: 101 }, () => ({ op: "add" }))),
      400,
      "invalidSyntax",
    ],
    [
      "too many operations on a group",
      "PATCH",
      "/Groups/GROUP",
      patch(...Array.from({ length: 101 }, () => ({ op: "replace", path: "displayName", value: "x" }))),
      400,
      "invalidSyntax",
    ],
    ["thousands of unknown keys of a user", "PATCH", "/Users/USER", unknownKeys(5_000), 400, "tooMany"],
    ["thousands of unknown keys of a group", "PATCH", "/Groups/GROUP", unknownKeys(5_000), 400, "tooMany"],
    [
      "more members in all operations together than in one",
      "PATCH",
      "/Groups/GROUP",
      patch(
        ...Array.from({ length: 3 }, () => ({
          op: "add",
          path: "members",
          value: Array.from({ length: 1_000 }, (_, n) => ({ value: `${n}` })),
        })),
      ),
      400,
      "tooMany",
    ],
    ["an unknown user", "GET", "/Users/unknown", undefined, 404, undefined],
  ])("refuses %s in its own form", async (_what, method, path, body, status, scimType) => {
    const { scim, create } = await stage();
    const group = (await scim("POST", "/Groups", { displayName: "engineers" })).json.id as string;
    const target = path.replace("USER", await create("ada")).replace("GROUP", group);
    const reply = await scim(method, target, body);
    expect([reply.status, reply.json["scimType"]]).toEqual([status, scimType]);
    expect(reply.json).toMatchObject({
      schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"],
      status: String(status),
    });
    expect(reply.type).toContain("application/scim+json");
  });

  it("refuses a second user of the same name, and describes itself", async () => {
    const { scim, create, user } = await stage();
    await create("ada");
    const again = await scim("POST", "/Users", user("ADA"));
    expect([again.status, again.json["scimType"]]).toEqual([409, "uniqueness"]);
    expect((await scim("GET", "/ServiceProviderConfig")).json).toMatchObject({ patch: { supported: true } });
    expect((await scim("GET", "/ResourceTypes")).json["totalResults"]).toBe(2);
    expect((await scim("GET", "/Schemas")).json["totalResults"]).toBe(2);
  });
});
