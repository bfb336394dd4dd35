// Organisations on a real PostgreSQL: roles, invitations, what ends with a member, and the last owner.
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { createApiTokens } from "../../../control-plane/accounts/api-tokens.ts";
import { createAuthenticator } from "../../../control-plane/accounts/authenticate.ts";
import type { Caller } from "../../../control-plane/accounts/caller.ts";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { InvalidApiKey } from "../../../control-plane/accounts/errors.ts";
import { attemptLimits } from "../../../control-plane/accounts/guess-limits.ts";
import { type KeyRules, noRules } from "../../../control-plane/accounts/key-rules.ts";
import type { MemberRole } from "../../../control-plane/accounts/member-role.ts";
import { memberLimits } from "../../../control-plane/accounts/member-store.ts";
import { guarded, holds } from "../../../control-plane/accounts/permissions.ts";
import { createScopedJwts } from "../../../control-plane/accounts/scoped-jwt.ts";
import { keyMonthBudget } from "../../../control-plane/billing/scopes.ts";
import { createAttemptStore } from "../../../control-plane/store/accounts/sign-in-store.ts";
import { createTokenStore } from "../../../control-plane/store/accounts/tokens-store.ts";
import { announce, createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { inTransaction } from "../../../control-plane/store/core/database.ts";
import { now } from "../../../control-plane/store/core/time.ts";
import { createDeploymentStore } from "../../../control-plane/store/deployments/deployments-store.ts";
import { createWorkloadStore } from "../../../control-plane/store/identity/workload-store.ts";
import { queueMail } from "../../../control-plane/store/work/mail-store.ts";
import { createAccountFeatures } from "../../../control-plane/wiring/accounts.ts";
import type { AccountId, MemberId, ProjectId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { from } from "../../fakes/sign-in-parts.ts";
import { log, openWorld } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const ip = "192.0.2.1";
const workloadRule = {
  name: "ci",
  issuer: "https://ci.example",
  audience: "stoker",
  subject: "repo:acme/*",
  claims: {},
  role: "inference",
  allowedModels: null,
  lifeSeconds: 900,
  project: null,
} as const;

async function open() {
  const world = await openWorld(postgres);
  const { db, pool, secrets, accounts, accountStore } = world;
  const dataKeys = createDataKeys({ store: accountStore, secrets });
  const store = { ...accountStore, ...createTokenStore(db), ...createAttemptStore(db) };
  const tokens = createApiTokens({ monthOf: keyMonthBudget, store, dataKeys, secrets });
  const scopedJwts = createScopedJwts({ store, secrets });
  let mails = 0;
  const features = createAccountFeatures({
    db,
    secrets,
    accounts,
    dataKeys,
    tokens,
    deployments: createDeploymentStore(db),
    changes: { on: () => {} },
    isSignUpOpen: false,
    mail: { makeId: () => `mail-${++mails}`, publicUrl: "https://stoker.example" },
    publicUrl: undefined,
    outbound: { blocked: [], mayBePlain: () => false, plainIssuers: [] },
    log,
  });
  const { members } = features;

  const person = async (name: string): Promise<Caller> => {
    const { account } = await accounts.createAccount({
      email: `${name}@example.com`,
      displayName: name,
      creditNanoUsd: nano(0n),
      isAdmin: false,
    });
    return (await features.sessions.begin({ account, ip }, ["password"])).caller;
  };
  const act = (caller: Caller) => ({ by: caller.member?.person ?? caller.account, ip, note: "" });
  const acting = async (who: Caller, organization: AccountId): Promise<Caller> => {
    const caller = await members.actAs(who, organization);
    if (!caller) throw new Error("not a member");
    return caller;
  };
  const found = async (name: string) => {
    const founder = await person(`${name}-founder`);
    const { account } = await members.createOrganization(founder.account, name, act(founder));
    return { organization: account, founder, owner: await acting(founder, account) };
  };
  /** A new person who accepts an invitation of `by`. */
  const join = async (by: Caller, name: string, role: MemberRole) => {
    const who = await person(name);
    const { token } = await members.invite(by, { role, email: null, projects: [] }, act(by));
    const { account } = await members.accept(who.account, token, ip);
    return { who, caller: await acting(who, account) };
  };
  const keyOf = async (caller: Caller, name: string) =>
    tokens.create(caller.account, name, noRules, act(caller), null, { member: caller.member?.id ?? null });
  const replica = async () => {
    const feed = createChangeFeed({ pool, log });
    const auth = createAuthenticator({ store, secrets, log, registry: new Registry(), changes: feed });
    await feed.start();
    onTestFinished(() => feed.stop());
    return async (secret: string) => auth.authenticate(secret, ip);
  };
  return { world, features, members, tokens, scopedJwts, person, act, acting, found, join, keyOf, replica };
}

const memberIdOf = ({ member }: Caller) => member?.id as MemberId;

describe("an organisation", () => {
  it("belongs to the person who creates it, has no key, no password and no address", async () => {
    const { world, features, members, person, act } = await open();
    const ada = await person("ada");
    const made = await members.createOrganization(ada.account, "acme", act(ada));
    expect(made).toMatchObject({ displayName: "acme", role: "owner", suspendReason: null });
    expect(await members.organizations(ada.account)).toEqual([made]);
    expect(await features.profiles.read(made.account)).toMatchObject({
      email: null,
      isTeamAccount: true,
      teamDisplayName: "acme",
    });
    const { rows } = await world.pool.query("select 1 from api_key where account_id = $1", [made.account]);
    expect(rows).toEqual([]);
    const signIn = features.signIn.signIn({ email: made.account, password: "anything at all" }, from(ip));
    await expect(signIn).rejects.toMatchObject({ code: "wrong_password" });
    await features.accountMails.requestReset(made.account, ip);
    await features.accountMails.idle();
    expect((await world.pool.query("select 1 from mail")).rows).toEqual([]);
  });

  it("is refused to an organisation, and beyond the maximum of a person", async () => {
    const { world, members, found, act, person } = await open();
    const { organization } = await found("acme");
    const by = { by: organization, ip, note: "" };
    await expect(members.createOrganization(organization, "more", by)).rejects.toMatchObject({ code: "not_a_person" });
    const ada = await person("ada");
    await world.pool.query(
      `with a as (insert into account (account_id, email, display_name, wrapped_dek, kek_version)
         select 'u:' || n, n::text, 'name-' || n, '', 1 from generate_series(1, $2::integer) n returning account_id)
       insert into member select 'member-' || account_id, account_id, $1, '', 'viewer', 'invited' from a`,
      [ada.account, memberLimits.organizations],
    );
    await expect(members.createOrganization(ada.account, "more", act(ada))).rejects.toMatchObject({
      code: "organization_limit_reached",
    });
  });

  it("shows nothing of another organisation to its members", async () => {
    const { members, tokens, found, join, keyOf } = await open();
    const [one, two] = [await found("one"), await found("two")];
    const { who, caller } = await join(one.owner, "bob", "admin");
    const other = await keyOf(two.owner, "secret");
    expect(await members.actAs(who, two.organization)).toBeUndefined();
    await expect(members.get(caller.account, memberIdOf(two.owner))).rejects.toMatchObject({
      code: "member_not_found",
    });
    await expect(
      members.change(caller, memberIdOf(two.owner), { role: "viewer" }, { by: "", ip, note: "" }),
    ).rejects.toMatchObject({ code: "member_not_found" });
    await expect(members.remove(caller, memberIdOf(two.owner), { by: "", ip, note: "" })).rejects.toMatchObject({
      code: "member_not_found",
    });
    expect(await tokens.revoke(caller, other.key, { by: "", ip, note: "" })).toBeUndefined();
    expect((await members.list(one.organization)).map(({ name }) => name)).toEqual(["one-founder", "bob"]);
  });
});

describe("a key of a member", () => {
  it.each(["owner", "admin", "developer", "billing", "viewer"] as const)("is at most a %s", async (role) => {
    const { found, join, keyOf, replica } = await open();
    const { owner } = await found("acme");
    const { caller } = await join(owner, "bob", role);
    const authenticate = await replica();
    const known = await authenticate((await keyOf(caller, "mine")).token);
    expect(known).toMatchObject({ account: caller.account, role: "admin", isAdmin: false, member: caller.member });
    expect(holds("infer", known)).toBe(["owner", "admin", "developer"].includes(role));
    expect(holds("closeAccount", known)).toBe(role === "owner");
    expect(holds("changeSignIn", known)).toBe(false);
  });

  it("changes with the role, and ends with the member, on another control plane in under 2 s", async () => {
    const { members, found, join, keyOf, act, replica, scopedJwts } = await open();
    const { owner } = await found("acme");
    const { caller } = await join(owner, "bob", "developer");
    const { token } = await keyOf(caller, "mine");
    const request = {
      apiKeyName: "mine",
      models: undefined,
      expiresAtS: undefined,
      expiresDeltaS: 600,
      limitUsd: undefined,
    };
    const jwt = await scopedJwts.mint(caller, request, act(caller));
    const replicas = [await replica(), await replica()];
    const each = async (check: (authenticate: (secret: string) => Promise<Caller>) => Promise<void>) =>
      vi.waitFor(() => Promise.all(replicas.map(check)), { timeout: promisedMs(2_000), interval: 10 });
    await each(async (authenticate) => {
      for (const secret of [token, jwt]) expect((await authenticate(secret)).member?.role).toBe("developer");
    });
    await members.change(owner, memberIdOf(caller), { role: "viewer" }, act(owner));
    await each(async (authenticate) => {
      for (const secret of [token, jwt]) expect(holds("infer", await authenticate(secret))).toBe(false);
    });
    await members.remove(owner, memberIdOf(caller), act(owner));
    await each(async (authenticate) => {
      for (const secret of [token, jwt]) await expect(authenticate(secret)).rejects.toBeInstanceOf(InvalidApiKey);
    });
  });

  it("is never valid without its member, whatever happened to the row", async () => {
    const { world, found, join, keyOf, replica } = await open();
    const { owner } = await found("acme");
    const { caller } = await join(owner, "bob", "developer");
    const { token } = await keyOf(caller, "mine");
    await world.pool.query("delete from member where member_id = $1", [memberIdOf(caller)]);
    await expect((await replica())(token)).rejects.toBeInstanceOf(InvalidApiKey);
  });

  it("cannot be changed, revoked or used for tokens by a member who may not manage keys", async () => {
    const { tokens, scopedJwts, found, join, keyOf, act } = await open();
    const { owner } = await found("acme");
    const [bob, eve] = [await join(owner, "bob", "developer"), await join(owner, "eve", "developer")];
    const key = await keyOf(bob.caller, "bobs");
    const refused = { code: "role_not_allowed" };
    const by = act(eve.caller);
    await expect(tokens.revoke(eve.caller, key.key, by)).rejects.toMatchObject(refused);
    await expect(tokens.change(eve.caller, key.key, { role: "read" }, by)).rejects.toMatchObject(refused);
    const request = {
      apiKeyName: "bobs",
      models: undefined,
      expiresAtS: undefined,
      expiresDeltaS: 600,
      limitUsd: undefined,
    };
    await expect(scopedJwts.mint(eve.caller, request, by)).rejects.toMatchObject(refused);
    expect(await tokens.change(bob.caller, key.key, { role: "read" }, act(bob.caller))).toMatchObject({ role: "read" });
    expect(await tokens.revoke(owner, key.key, act(owner))).toMatchObject({ key: key.key });
  });

  it("is only tightened by a member who may not manage keys", async () => {
    const { tokens, found, join, act } = await open();
    const { organization, owner } = await found("acme");
    const { caller: bob } = await join(owner, "bob", "developer");
    const of = { member: memberIdOf(bob) };
    const expiresAtMs = Date.now() + 86_400_000;
    const rules = { ...noRules, role: "read", requestsPerMinute: 10, expiresAtMs } as const;
    const lists = { allowedModels: ["acme/a", "acme/b"], allowedIps: ["10.0.0.0/8"] };
    const { key } = await tokens.create(organization, "bobs", { ...rules, ...lists }, act(owner), null, of);
    const change = (by: Caller, to: Partial<KeyRules>) => tokens.change(by, key, to, act(by));
    for (const wider of [
      { role: "admin" },
      { role: "inference" },
      { requestsPerMinute: 11 },
      { requestsPerMinute: null },
      { expiresAtMs: expiresAtMs + 60_000 },
      { expiresAtMs: null },
      { allowedModels: null },
      { allowedModels: ["acme/a", "acme/c"] },
      { allowedIps: null },
      { allowedIps: ["10.0.0.0/7"] },
      { allowedIps: ["10.1.0.0/16", "192.0.2.1"] },
    ] as const)
      await expect(change(bob, wider)).rejects.toMatchObject({ code: "role_not_allowed" });
    const narrower = {
      requestsPerMinute: 9,
      allowedModels: ["acme/b"],
      allowedIps: ["10.1.0.0/16"],
      tokensPerMinute: 5,
    };
    expect(await change(bob, narrower)).toMatchObject({ ...narrower, role: "read", expiresAtMs });
    expect(await change(owner, { allowedModels: null })).toMatchObject({ allowedModels: null });
  });

  it("can be one of a service account, which ends with it", async () => {
    const { members, tokens, found, join, act, replica } = await open();
    const { owner } = await found("acme");
    const admin = (await join(owner, "bob", "admin")).caller;
    const developer = (await join(owner, "eve", "developer")).caller;
    await expect(members.addServiceAccount(admin, "ci", "owner", act(admin))).rejects.toMatchObject({
      code: "role_not_allowed",
    });
    await expect(members.addServiceAccount(owner, "ci", "owner", act(owner))).rejects.toMatchObject({
      code: "bad_member_role",
    });
    const service = await members.addServiceAccount(admin, "ci", "developer", act(admin));
    await expect(members.addServiceAccount(admin, "CI", "viewer", act(admin))).rejects.toMatchObject({
      code: "name_taken",
    });
    await expect(members.holderOf(developer, service.id)).rejects.toMatchObject({ code: "role_not_allowed" });
    await expect(members.holderOf(admin, memberIdOf(developer))).rejects.toMatchObject({ code: "bad_member_role" });
    const holder = await members.holderOf(admin, service.id);
    const { token } = await tokens.create(admin.account, "ci", noRules, act(admin), null, { member: holder });
    expect((await (await replica())(token)).member).toEqual({ id: service.id, role: "developer", person: null });
    // It stays when its creator goes.
    await members.remove(owner, memberIdOf(admin), act(owner));
    expect((await (await replica())(token)).member?.id).toBe(service.id);
    await members.remove(owner, service.id, act(owner));
    await expect((await replica())(token)).rejects.toBeInstanceOf(InvalidApiKey);
  });
});

describe("an invitation", () => {
  it("is used once, by whoever has its link, and is audited with the person", async () => {
    const { world, members, found, person, act } = await open();
    const { organization, owner, founder } = await found("acme");
    const invitation = await members.invite(owner, { role: "billing", email: null, projects: [] }, act(owner));
    const [bob, eve] = [await person("bob"), await person("eve")];
    expect(await members.offered(invitation.token)).toMatchObject({ organization, name: "acme", role: "billing" });
    expect(await members.accept(bob.account, invitation.token, ip)).toMatchObject({
      account: organization,
      role: "billing",
    });
    await expect(members.accept(eve.account, invitation.token, ip)).rejects.toMatchObject({
      code: "invitation_expired",
    });
    expect(await members.invitations(organization)).toEqual([]);
    const { rows } = await world.pool.query("select actor, action from audit where account_id = $1 order by audit_id", [
      organization,
    ]);
    expect(rows).toEqual([
      { actor: founder.account, action: "account.create" },
      { actor: founder.account, action: "invitation.create" },
      { actor: bob.account, action: "member.add" },
    ]);
  });

  it("of two who use it at the same time admits one", async () => {
    const { members, found, person, act } = await open();
    const { organization, owner } = await found("acme");
    const { token } = await members.invite(owner, { role: "viewer", email: null, projects: [] }, act(owner));
    const people = await Promise.all(["bob", "eve", "dan"].map(person));
    const outcomes = await Promise.allSettled(people.map(({ account }) => members.accept(account, token, ip)));
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await members.list(organization)).toHaveLength(2);
  });

  it("to an address is mailed with a link, and only the person with that verified address may use it", async () => {
    const { world, members, found, person, act } = await open();
    const { organization, owner } = await found("acme");
    const invitation = await members.invite(
      owner,
      { role: "developer", email: "Bob@example.com", projects: [] },
      act(owner),
    );
    const { rows } = await world.pool.query("select account_id, recipient, link, body from mail");
    expect(rows).toMatchObject([{ account_id: organization, recipient: "Bob@example.com", link: "join_organization" }]);
    expect(rows[0].body).toContain("{link}");
    expect(rows[0].body).not.toContain(invitation.token);
    const [bob, eve] = [await person("bob"), await person("eve")];
    await expect(members.accept(eve.account, invitation.token, ip)).rejects.toMatchObject({
      code: "invitation_for_other",
    });
    await world.pool.query("update account set email_verified = false where account_id = $1", [bob.account]);
    await expect(members.accept(bob.account, invitation.token, ip)).rejects.toMatchObject({
      code: "email_not_verified",
    });
    await world.pool.query("update account set email_verified = true where account_id = $1", [bob.account]);
    // A new one replaces it.
    const second = await members.invite(owner, { role: "viewer", email: "bob@example.com", projects: [] }, act(owner));
    await expect(members.offered(invitation.token)).rejects.toMatchObject({ code: "invitation_expired" });
    expect(await members.accept(bob.account, second.token, ip)).toMatchObject({ role: "viewer" });
    await expect(
      members.invite(owner, { role: "viewer", email: "bob@example.com", projects: [] }, act(owner)),
    ).rejects.toMatchObject({
      code: "already_member",
    });
  });

  it("says that it was not mailed beyond the maximum of its organisation, its maker, its address or all", async () => {
    const { world, members, found, act } = await open();
    const { owner } = await found("acme");
    const invited = async (caller: Caller, email: string) =>
      (await members.invite(caller, { role: "viewer", email, projects: [] }, act(caller))).wasMailed;
    const mails = async () => Number((await world.pool.query("select count(*) from mail")).rows[0].count);
    const perMailbox = attemptLimits.invitationsPerMailbox.max;
    for (let n = 0; n < perMailbox; n++) expect(await invited(owner, "bob@example.com")).toBe(true);
    expect(await invited(owner, "BOB@example.com")).toBe(false);
    expect(await mails()).toBe(perMailbox);

    await world.pool.query(
      `insert into mail (mail_id, account_id, recipient, subject, body, link)
       select 'earlier-' || n, $1, 'x@example.com', '', '', 'join_organization' from generate_series(1, $2::integer) n`,
      [owner.account, 50 - perMailbox],
    );
    expect(await invited(owner, "carol@example.com")).toBe(false);

    const attempts = createAttemptStore(world.db);
    const count = async (key: string, { max, windowMs }: { readonly max: number; readonly windowMs: number }) => {
      for (let n = 0; n < max; n++) await attempts.countAttempt(key, Date.now(), windowMs);
    };
    const second = await found("beta");
    expect(await invited(second.owner, "dan@example.com")).toBe(true);
    await count(`invitation ${second.founder.account}`, attemptLimits.invitationsPerPerson);
    expect(await invited(second.owner, "eve@example.com")).toBe(false);

    const third = await found("gamma");
    expect(await invited(third.owner, "fay@example.com")).toBe(true);
    await count("invitations ", attemptLimits.invitationsOfAll);
    expect(await invited(third.owner, "gus@example.com")).toBe(false);
  });

  it("grants no role above that of its maker, and ends when they leave or get another role", async () => {
    const { members, found, join, act } = await open();
    const { organization, owner } = await found("acme");
    const [admin, other] = [(await join(owner, "bob", "admin")).caller, (await join(owner, "dan", "admin")).caller];
    await expect(members.invite(admin, { role: "owner", email: null, projects: [] }, act(admin))).rejects.toMatchObject(
      { code: "role_not_allowed" },
    );
    const left = await members.invite(admin, { role: "admin", email: null, projects: [] }, act(admin));
    const lowered = await members.invite(other, { role: "admin", email: null, projects: [] }, act(other));
    expect((await members.invitations(organization)).map(({ invitedBy }) => invitedBy).toSorted()).toEqual([
      "bob",
      "dan",
    ]);
    await members.remove(admin, memberIdOf(admin), act(admin));
    await members.change(owner, memberIdOf(other), { role: "viewer" }, act(owner));
    for (const { token } of [left, lowered])
      await expect(members.offered(token)).rejects.toMatchObject({ code: "invitation_expired" });
  });

  it("is for organisations only", async () => {
    const { members, person, act } = await open();
    const ada = await person("ada");
    await expect(members.invite(ada, { role: "viewer", email: null, projects: [] }, act(ada))).rejects.toMatchObject({
      code: "not_an_organization",
    });
  });
});

describe("a mail to an organisation", () => {
  it("goes to the owner who is one the longest, and only to a verified address", async () => {
    const { world, found, join } = await open();
    const { organization, owner, founder } = await found("acme");
    await join(owner, "bob", "owner");
    const send = (id: string) =>
      inTransaction(world.db, (trx) => queueMail(trx, { id, account: organization, subject: "Limit", text: "80 %" }));
    expect(await send("one")).toBe(true);
    await world.pool.query("update account set email_verified = false where account_id = $1", [founder.account]);
    expect(await send("two")).toBe(true);
    const { rows } = await world.pool.query("select account_id, recipient from mail order by mail_id");
    expect(rows).toEqual([
      { account_id: organization, recipient: "acme-founder@example.com" },
      { account_id: organization, recipient: "bob@example.com" },
    ]);
  });
});

describe("a member who is removed while their request runs", () => {
  it("invites nobody and leaves no member, key, project or workload identity behind", async () => {
    const { world, features, members, tokens, found, join, act } = await open();
    const { organization, owner } = await found("acme");
    const { caller: eve } = await join(owner, "eve", "admin");
    const { caller: bob } = await join(owner, "bob", "viewer");
    const robot = await members.addServiceAccount(owner, "robot", "developer", act(owner));
    const invited = await members.invite(owner, { role: "viewer", email: null, projects: [] }, act(owner));
    const project = await features.projects.create(organization, "research", null, act(owner));
    const workloads = createWorkloadStore(world.db);
    const keysOfEve = guarded("manageKeys", eve, act(eve));
    const attempts = [
      () => members.invite(eve, { role: "admin", email: null, projects: [] }, act(eve)),
      () => members.withdraw(eve, invited.id, act(eve)),
      () => members.addServiceAccount(eve, "spy", "admin", act(eve)),
      () => members.change(eve, memberIdOf(bob), { role: "admin" }, act(eve)),
      () => members.remove(eve, memberIdOf(bob), act(eve)),
      () => tokens.create(organization, "spy", noRules, keysOfEve, null, { member: robot.id }),
      () => features.projects.create(organization, "spy", null, keysOfEve),
      () => features.projects.change(organization, project.project, { name: "spy" }, keysOfEve),
      () => features.projects.end(organization, project.project, keysOfEve),
      () => workloads.create(organization, "spy", { ...workloadRule, member: robot.id }, 50, keysOfEve),
    ];
    await members.change(owner, memberIdOf(eve), { role: "viewer" }, act(owner));
    for (const attempt of attempts) await expect(attempt()).rejects.toMatchObject({ code: "role_not_allowed" });
    await members.remove(owner, memberIdOf(eve), act(owner));
    for (const attempt of attempts) await expect(attempt()).rejects.toMatchObject({ code: "not_a_member" });
    expect(await members.list(organization)).toHaveLength(3);
    expect(await members.invitations(organization)).toHaveLength(1);
    expect(await tokens.list(organization)).toEqual([]);
    expect(await features.projects.list(organization)).toMatchObject([{ name: "research" }]);
    expect(await workloads.list(organization)).toEqual([]);
  });

  it("is refused when their removal commits first", async () => {
    const { world, members, found, join, act } = await open();
    const { organization, owner } = await found("acme");
    const { caller: eve } = await join(owner, "eve", "admin");
    const removal = await world.pool.connect();
    await removal.query("begin");
    await removal.query("delete from member where member_id = $1", [memberIdOf(eve)]);
    const late = members.invite(eve, { role: "admin", email: null, projects: [] }, act(eve)).catch((error) => error);
    await vi.waitFor(async () => {
      const { rows } = await world.pool.query("select 1 from pg_locks where not granted");
      expect(rows).toHaveLength(1);
    });
    await removal.query("commit");
    removal.release();
    expect(await late).toMatchObject({ code: "not_a_member" });
    expect(await members.invitations(organization)).toEqual([]);
  });
});

describe("a workload identity of an organisation", () => {
  it.each([
    ["is removed", undefined],
    ["becomes a developer", "developer"],
  ] as const)("ends when the member who created it %s, with its keys for a service account", async (_what, role) => {
    const { world, members, tokens, found, join, act, replica } = await open();
    const { organization, owner } = await found("acme");
    const { caller: eve } = await join(owner, "eve", "admin");
    const robot = await members.addServiceAccount(owner, "robot", "developer", act(owner));
    const workloads = createWorkloadStore(world.db);
    const nowMs = Date.now();
    const create = async (by: Caller, name: string) => {
      const rule = { ...workloadRule, name, member: robot.id };
      expect(await workloads.create(organization, name, rule, 50, guarded("manageKeys", by, act(by)))).toBe("done");
      const times = { tokenExpiresAtMs: nowMs + 60_000, expiresAtMs: nowMs + 60_000 };
      const exchange = { id: `exchange-${name}`, rule: name, tokenHash: Buffer.from(name), ...times };
      expect(await workloads.begin(exchange, { live: 10, perToken: 1 }, nowMs)).toBe("done");
      const key = await tokens.create(organization, name, noRules, act(by), null, { member: robot.id });
      expect(await workloads.finish(exchange.id, key.key)).toBe(true);
      return key.token;
    };
    const [spy, mine] = [await create(eve, "spy"), await create(owner, "mine")];
    await members.change(owner, robot.id, { role: "viewer" }, act(owner));
    expect(await workloads.list(organization)).toHaveLength(2);
    if (role === undefined) await members.remove(owner, memberIdOf(eve), act(owner));
    else await members.change(owner, memberIdOf(eve), { role }, act(owner));
    expect(await workloads.list(organization)).toMatchObject([{ name: "mine" }]);
    const authenticate = await replica();
    await expect(authenticate(spy)).rejects.toBeInstanceOf(InvalidApiKey);
    expect(await authenticate(mine)).toMatchObject({ member: { id: robot.id } });
    await members.remove(owner, robot.id, act(owner));
    expect(await workloads.list(organization)).toEqual([]);
  });
});

it("does not let go of a member whom a provider makes one again", async () => {
  const { members, world, found, join, act } = await open();
  const { organization, owner } = await found("acme");
  const { caller: bob } = await join(owner, "bob", "developer");
  await world.pool.query("update member set source = 'provider' where member_id = $1", [memberIdOf(bob)]);
  await expect(members.remove(bob, memberIdOf(bob), act(bob))).rejects.toMatchObject({ code: "member_by_provider" });
  expect(await members.get(organization, memberIdOf(bob))).toMatchObject({ source: "provider" });
});

describe("the projects of a member", () => {
  it("are those of the invitation, which names projects of its organization only and keeps them from being deleted", async () => {
    const { features, members, tokens, person, found, act } = await open();
    const [{ organization, owner }, other] = [await found("acme"), await found("other")];
    const { projects } = features;
    const [search, ads, foreign] = [
      (await projects.create(organization, "search", null, act(owner))).project,
      (await projects.create(organization, "ads", null, act(owner))).project,
      (await projects.create(other.organization, "search", null, act(other.owner))).project,
    ];
    const wanted = { role: "developer", email: null } as const;
    for (const project of [foreign, "unknown" as ProjectId])
      await expect(members.invite(owner, { ...wanted, projects: [search, project] }, act(owner))).rejects.toMatchObject(
        { code: "project_not_found" },
      );
    expect(await members.invitations(organization)).toEqual([]);
    const { token } = await members.invite(owner, { ...wanted, projects: [search, ads, search] }, act(owner));
    expect(await members.invitations(organization)).toMatchObject([{ projects: [search, ads] }]);
    await expect(projects.end(organization, ads, act(owner))).rejects.toMatchObject({ code: "project_has_keys" });
    const bob = await person("bob");
    await members.accept(bob.account, token, ip);
    const member = (await members.list(organization)).find((one) => one.person === bob.account);
    expect(member?.projects).toEqual([search, ads]);
    const made = await tokens.create(organization, "hers", noRules, act(bob), null, { member: member?.id ?? null });
    expect(made.projectId).toBe(search);
  });

  it("bind the keys that the member makes, a command line's and a workload's too, but no owner", async () => {
    const { features, members, tokens, found, join, act } = await open();
    const { organization, owner } = await found("acme");
    const { caller: bob } = await join(owner, "bob", "developer");
    const { projects, workloads } = features;
    const [search, ads, other] = await Promise.all(
      ["search", "ads", "other"].map(
        async (name) => (await projects.create(organization, name, null, act(owner))).project,
      ),
    );
    const create = (by: Caller, name: string, project: ProjectId | null = null) =>
      tokens.create(organization, name, noRules, guarded("ownKeys", by, act(by)), null, {
        member: memberIdOf(bob),
        project,
      });
    const projectOf = async (made: ReturnType<typeof create>) => (await made).projectId;
    expect(await projectOf(create(bob, "before"))).toBeNull();
    const change = { projects: [search, ads] as ProjectId[] };
    expect(await members.change(owner, memberIdOf(bob), change, act(owner))).toMatchObject({
      role: "developer",
      projects: [search, ads],
    });
    expect(await projectOf(create(bob, "default"))).toBe(search);
    expect(await projectOf(create(bob, "chosen", ads))).toBe(ads);
    await expect(create(bob, "refused", other)).rejects.toMatchObject({
      code: "project_not_allowed",
      message: expect.stringContaining(`${search}, ${ads}`),
    });
    expect(await projectOf(create(owner, "by the owner", other))).toBe(other);

    await features.cliLogins.approve({ account: organization, ip }, "c".repeat(32), memberIdOf(bob));
    const ofCommandLine = (await tokens.list(organization)).find(({ name }) => name.startsWith("cli-"));
    expect(ofCommandLine?.projectId).toBe(search);
    const rule = { ...workloadRule, member: memberIdOf(bob) };
    await expect(
      workloads.create(organization, { ...rule, project: "unknown" as ProjectId }, act(owner)),
    ).rejects.toMatchObject({ code: "project_not_found" });
    const made = await workloads.create(organization, { ...rule, project: other as ProjectId }, act(owner));
    expect(made.project).toBe(other);

    await expect(projects.end(organization, ads as ProjectId, act(owner))).rejects.toMatchObject({
      code: "project_has_keys",
    });
    for (const { key, projectId } of await tokens.list(organization))
      if (projectId === ads) await tokens.revoke(owner, key, act(owner));
    await expect(projects.end(organization, ads as ProjectId, act(owner))).rejects.toMatchObject({
      code: "project_has_keys",
    });
    await members.change(owner, memberIdOf(bob), { projects: [] }, act(owner));
    const last = await workloads.create(organization, { ...rule, name: "last", project: ads as ProjectId }, act(owner));
    await expect(projects.end(organization, ads as ProjectId, act(owner))).rejects.toMatchObject({
      code: "project_has_keys",
    });
    await workloads.remove(organization, last.id, act(owner));
    await projects.end(organization, ads as ProjectId, act(owner));
    expect(await projectOf(create(bob, "free", other))).toBe(other);
    await expect(
      members.change(owner, memberIdOf(bob), { projects: [ads as ProjectId] }, act(owner)),
    ).rejects.toMatchObject({ code: "project_not_found" });
  });

  it("change together with the role, or not at all, and only by who manages members", async () => {
    const { features, members, found, join, act } = await open();
    const { organization, owner } = await found("acme");
    const { caller: bob } = await join(owner, "bob", "developer");
    const { project } = await features.projects.create(organization, "search", null, act(owner));
    const change = { role: "viewer", projects: [project] } as const;
    await expect(members.change(owner, memberIdOf(owner), change, act(owner))).rejects.toMatchObject({
      code: "last_owner",
    });
    expect(await members.get(organization, memberIdOf(owner))).toMatchObject({ role: "owner", projects: [] });
    await expect(members.change(bob, memberIdOf(bob), { projects: [] }, act(bob))).rejects.toMatchObject({
      code: "role_not_allowed",
    });
    await expect(members.change(owner, memberIdOf(bob), {}, act(owner))).rejects.toMatchObject({
      code: "empty_change",
    });
  });
});

describe("the owners of an organisation", () => {
  it("are changed by owners only, and one remains", async () => {
    const { members, found, join, act } = await open();
    const { owner } = await found("acme");
    const admin = (await join(owner, "bob", "admin")).caller;
    const by = act(admin);
    await expect(members.change(admin, memberIdOf(owner), { role: "viewer" }, by)).rejects.toMatchObject({
      code: "role_not_allowed",
    });
    await expect(members.change(admin, memberIdOf(admin), { role: "owner" }, by)).rejects.toMatchObject({
      code: "role_not_allowed",
    });
    await expect(members.remove(admin, memberIdOf(owner), by)).rejects.toMatchObject({ code: "role_not_allowed" });
    for (const refused of [
      members.change(owner, memberIdOf(owner), { role: "admin" }, act(owner)),
      members.remove(owner, memberIdOf(owner), act(owner)),
    ])
      await expect(refused).rejects.toMatchObject({ code: "last_owner" });
    await members.change(owner, memberIdOf(admin), { role: "owner" }, act(owner));
    expect(await members.change(owner, memberIdOf(owner), { role: "admin" }, act(owner))).toMatchObject({
      role: "admin",
    });
  });

  it("cannot both leave at the same time", async () => {
    const { members, found, join, act } = await open();
    const { organization, owner } = await found("acme");
    const second = (await join(owner, "bob", "owner")).caller;
    const ends = await Promise.allSettled(
      [owner, second].map((caller) => members.remove(caller, memberIdOf(caller), act(caller))),
    );
    expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await members.list(organization)).toHaveLength(1);
  });

  it("delete their own accounts only while another remains; then their keys end as well", async () => {
    const { features, members, found, join, keyOf, act, replica } = await open();
    const { organization, founder, owner } = await found("acme");
    const { token } = await keyOf(owner, "mine");
    await expect(features.deleteAccount({ account: founder.account, ip })).rejects.toMatchObject({
      code: "last_owner",
      message: expect.stringContaining("acme"),
    });
    const second = (await join(owner, "bob", "owner")).caller;
    await features.deleteAccount({ account: founder.account, ip });
    expect((await members.list(organization)).map(({ name }) => name)).toEqual(["bob"]);
    await expect((await replica())(token)).rejects.toBeInstanceOf(InvalidApiKey);
    // The organisation is deleted by its owner, and its last owner then by themselves.
    await features.deleteAccount({ account: organization, ip, by: act(second).by });
    expect(await members.organizations(second.member?.person as AccountId)).toEqual([]);
    await features.deleteAccount({ account: second.member?.person as AccountId, ip });
  });
});

describe("a person whom a control plane of the release before deletes", () => {
  it("has no key in an organisation from then on, though the membership remains", async () => {
    const { world, found, join, keyOf, replica } = await open();
    const { organization, owner } = await found("acme");
    const { who, caller } = await join(owner, "bob", "developer");
    const { token } = await keyOf(caller, "mine");
    const other = await replica();
    expect((await other(token)).member?.person).toBe(who.account);
    await inTransaction(world.db, async (trx) => {
      await trx.updateTable("account").set({ deletedAt: now }).where("accountId", "=", who.account).execute();
      await announce(trx, "account", who.account);
    });
    await vi.waitFor(() => expect(other(token)).rejects.toBeInstanceOf(InvalidApiKey), {
      timeout: promisedMs(2_000),
      interval: 10,
    });
    const { rows } = await world.pool.query("select 1 from member where account_id = $1", [organization]);
    expect(rows).toHaveLength(2);
  });
});
