// Exchanges of tokens of a real OpenID provider for keys, and what a stranger, a tenant of the same issuer and a hostile issuer try.
import { type JWTPayload, UnsecuredJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createIssuerKeys, IssuerBusy, issuerLimits } from "../../control-plane/identity/issuer-keys.ts";
import { createIssuerFetch } from "../../control-plane/identity/judged-fetch.ts";
import { matchesSubject, patternProblem } from "../../control-plane/identity/subject-pattern.ts";
import { workloadLimits } from "../../control-plane/identity/workload-identities.ts";
import type { WorkloadRule } from "../../control-plane/identity/workload-store.ts";
import { createMemberStore } from "../../control-plane/store/accounts/member-store.ts";
import type { AccountId, MemberId } from "../../proto/ids.ts";
import { act, closeIdentityEdge, identityStage, ip } from "../fakes/identity-stage.ts";
import { startOidcServer } from "../fakes/oidc-server.ts";
import { sharedPostgres, type TestDatabases } from "../fakes/postgres.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(async () => {
  await closeIdentityEdge();
  await postgres.stop();
});

const audience = "https://stoker.example.com";
const sub = "repo:acme/app:ref:refs/heads/main";

async function stage(change: Partial<WorkloadRule> = {}) {
  const server = await startOidcServer();
  onTestFinished(() => server.close());
  const plainIssuers = [server.issuer, `${server.issuer}/`];
  const { features, makeAccount, world } = await identityStage(postgres, { plainIssuers });
  const account = await makeAccount("acme");
  const { workloads } = features;
  const rule: WorkloadRule = {
    name: "deploy",
    issuer: server.issuer,
    audience,
    subject: "repo:acme/app:*",
    claims: { environment: "production" },
    role: "inference",
    allowedModels: ["org/model"],
    lifeSeconds: 600,
    member: null,
    project: null,
    ...change,
  };
  const { id } = await workloads.create(account, rule, act);
  const now = Math.floor(Date.now() / 1000);
  const token = (claims: JWTPayload = {}) =>
    server.sign({
      iss: server.issuer,
      aud: audience,
      sub,
      iat: now,
      exp: now + 300,
      environment: "production",
      ...claims,
    });
  const codeOf = (token: string, rule = id) =>
    workloads.exchange(rule, token, ip).then(
      () => "done",
      (error) => error.code,
    );
  const liveKeys = async () =>
    (
      await world.pool.query(
        "select name, role, allowed_models, expires_at from api_key where revoked_at is null and name <> 'auto'",
      )
    ).rows;
  return { features, workloads, account, server, rule, id, token, now, codeOf, liveKeys, world, makeAccount };
}

describe("a workload's token", () => {
  it("is exchanged for a key with the rule's role, models and life", async () => {
    const { workloads, id, token, liveKeys, account } = await stage();
    const { key, expiresAtMs, rule } = await workloads.exchange(id, await token(), ip);
    expect(key).toMatch(/^stk_/);
    expect(rule.account).toBe(account);
    expect(Math.abs(expiresAtMs - Date.now() - 600_000)).toBeLessThan(60_000);
    expect(await liveKeys()).toMatchObject([{ role: "inference", allowed_models: ["org/model"] }]);
  });

  it.each<[string, JWTPayload, string]>([
    ["another audience", { aud: "https://other.example" }, "workload_token_refused"],
    ["another issuer", { iss: "https://login.evil.example" }, "workload_token_refused"],
    ["another subject", { sub: "repo:evil/app:ref:refs/heads/main" }, "workload_token_refused"],
    ["a subject that contains the right one", { sub: `x${sub}` }, "workload_token_refused"],
    ["another value of a claim", { environment: "staging" }, "workload_token_refused"],
    ["a list as a claim", { environment: ["production"] }, "workload_token_refused"],
    ["no such claim", { environment: undefined }, "workload_token_refused"],
    ["an end in the past", { iat: 1_000, exp: 2_000 }, "workload_token_refused"],
    ["a life of more than a day", { exp: Math.floor(Date.now() / 1000) + 2 * 86_400 }, "workload_token_refused"],
  ])("is refused with %s", async (_what, claims, code) => {
    const { token, codeOf, liveKeys } = await stage();
    expect(await codeOf(await token(claims))).toBe(code);
    expect(await liveKeys()).toEqual([]);
  });

  it("is refused when nobody, or somebody else, has signed it", async () => {
    const { codeOf, now, server, rule } = await stage();
    const claims = { iss: rule.issuer, aud: audience, sub, iat: now, exp: now + 300, environment: "production" };
    expect(await codeOf(new UnsecuredJWT(claims).encode())).toBe("workload_token_refused");
    expect(await codeOf(`${new UnsecuredJWT(claims).encode()}c2ln`)).toBe("workload_token_refused");
    expect(server.asked).toEqual([]);
    const other = await startOidcServer();
    onTestFinished(() => other.close());
    expect(await codeOf(await other.sign(claims))).toBe("workload_token_refused");
  });

  it("causes no request to an issuer, or for an audience, that its rule does not name", async () => {
    const { codeOf, token, server } = await stage();
    const codes = [
      await codeOf(await token(), "unknown-rule"),
      await codeOf(await token({ iss: "http://127.0.0.1:1" })),
      await codeOf(await token({ aud: "other" })),
      await codeOf("a.b.c"),
      await codeOf("x".repeat(20_000)),
    ];
    expect(new Set(codes)).toEqual(new Set(["workload_token_refused"]));
    expect(server.asked).toEqual([]);
  });

  it("is exchanged a limited number of times, also concurrently and with another spelling of its signature", async () => {
    const { codeOf, token } = await stage();
    const one = await token();
    const codes = await Promise.all(Array.from({ length: workloadLimits.perToken + 2 }, () => codeOf(one)));
    expect(codes.filter((code) => code === "done")).toHaveLength(workloadLimits.perToken);
    expect(await codeOf(one)).toBe("workload_token_used");
  });

  it("gives its keys the project of the rule", async () => {
    const { features, account, workloads, rule, token, world } = await stage();
    const { project } = await features.projects.create(account, "search", null, act);
    const { id } = await workloads.create(account, { ...rule, name: "search", project }, act);
    await workloads.exchange(id, await token(), ip);
    const { rows } = await world.pool.query("select project_id from api_key where name like 'search-%'");
    expect(rows).toEqual([{ project_id: project }]);
  });

  it("reads the issuer's keys once for many tokens", async () => {
    const { codeOf, token, server } = await stage();
    for (const jti of ["a", "b", "c"]) expect(await codeOf(await token({ jti }))).toBe("done");
    expect(server.asked).toEqual(["/.well-known/openid-configuration", "/jwks"]);
  });

  it("has keys no more when its rule is deleted", async () => {
    const { workloads, account, id, token, codeOf, liveKeys } = await stage();
    expect(await codeOf(await token())).toBe("done");
    await workloads.remove(account, id, act);
    expect(await liveKeys()).toEqual([]);
    expect(await codeOf(await token())).toBe("workload_token_refused");
  });

  it("has no rule more when the member for whom its keys are has left", async () => {
    const { workloads, makeAccount, rule, world, features } = await stage();
    const organization = (await features.members.createOrganization(await makeAccount("founder"), "team", act)).account;
    await world.pool.query(
      "insert into member (member_id, account_id, name, role, source) values ('robot', $1, 'robot', 'developer', 'created')",
      [organization],
    );
    await workloads.create(organization, { ...rule, member: "robot" as MemberId }, act);
    const store = createMemberStore(world.db);
    expect(await store.remove(organization, "robot" as MemberId, { mayChange: () => true, act })).toBe("done");
    expect(await workloads.list(organization)).toEqual([]);
  });

  it("is not accepted by the rule of another account, and no account reads another's rule", async () => {
    const { workloads, id, makeAccount } = await stage();
    const other = await makeAccount("eve");
    await expect(workloads.get(other, id)).rejects.toMatchObject({ code: "workload_identity_not_found" });
    await expect(workloads.remove(other, id, act)).rejects.toMatchObject({ code: "workload_identity_not_found" });
    expect(await workloads.list(other)).toEqual([]);
  });
});

describe("an issuer", () => {
  const rule = {
    name: "x",
    audience,
    subject: "s",
    claims: {},
    role: "inference",
    allowedModels: null,
    lifeSeconds: 60,
    member: null,
    project: null,
  } as const;

  it("is not called at a private address or over plain HTTP", async () => {
    const { features, makeAccount } = await identityStage(postgres);
    const account = await makeAccount("eve");
    const create = (name: string, issuer: string) => features.workloads.create(account, { ...rule, name, issuer }, act);
    await expect(create("a", "http://127.0.0.1:9")).rejects.toMatchObject({ code: "bad_workload_identity" });
    const issuer = "https://127.0.0.1:9";
    const { id } = await create("b", issuer);
    const server = await startOidcServer();
    onTestFinished(() => server.close());
    const now = Math.floor(Date.now() / 1000);
    const token = await server.sign({ iss: issuer, aud: audience, sub: "s", iat: now, exp: now + 60 });
    await expect(features.workloads.exchange(id, token, ip)).rejects.toMatchObject({ code: "workload_issuer_failed" });
  });

  it("that the operator lists may use plain HTTP, but no other issuer, nor another spelling, at the same host", async () => {
    const [listed, other, elsewhere] = [await startOidcServer(), await startOidcServer(), await startOidcServer()];
    for (const server of [listed, other, elsewhere]) onTestFinished(() => server.close());
    const { features, makeAccount } = await identityStage(postgres, { plainIssuers: [listed.issuer] });
    const account = await makeAccount("eve");
    const create = (issuer: string) => features.workloads.create(account, { ...rule, name: issuer, issuer }, act);
    for (const issuer of [`${listed.issuer}/`, `${listed.issuer}/x`, other.issuer])
      await expect(create(issuer)).rejects.toMatchObject({ code: "bad_workload_identity" });
    const { id } = await create(listed.issuer);
    const now = Math.floor(Date.now() / 1000);
    const exchange = async () => {
      const token = await listed.sign({ iss: listed.issuer, aud: audience, sub: "s", iat: now, exp: now + 60 });
      return features.workloads.exchange(id, token, ip);
    };
    expect((await exchange()).key).toMatch(/^stk_/);
    // A public issuer of a customer names keys at the listed host.
    const { to } = createIssuerFetch({ blocked: [], exempt: [listed.issuer] });
    await expect(to("https://ci.example.com")(`${listed.issuer}/jwks`)).rejects.toThrow();
    await expect(to(listed.issuer)(`${elsewhere.issuer}/jwks`)).rejects.toThrow();
    expect((await to(listed.issuer)(`${listed.issuer}/jwks`)).status).toBe(200);
    expect([other.asked, elsewhere.asked]).toEqual([[], []]);
  });

  it("must name itself in its metadata", async () => {
    const { server, codeOf, token, workloads, account, rule } = await stage();
    // The same host under another name of the issuer.
    const issuer = `${server.issuer}/`;
    const { id } = await workloads.create(account, { ...rule, name: "other", issuer }, act);
    expect(await codeOf(await token({ iss: issuer }), id)).toBe("workload_issuer_failed");
  });
});

describe("issuers of one account", () => {
  const [acme, eve] = ["u:acme", "u:eve"] as [AccountId, AccountId];
  /** Answers as issuers do; those of which the name begins with `slow` never do. */
  function reader() {
    const reads: string[] = [];
    const keys = createIssuerKeys((issuer) => async (url) => {
      if (issuer.startsWith("https://slow")) return new Promise(() => {});
      const isMetadata = url.endsWith("/openid-configuration");
      if (isMetadata) reads.push(issuer);
      return Response.json(isMetadata ? { issuer, jwks_uri: `${issuer}/jwks` } : { keys: [] });
    });
    return { reads, of: keys.of };
  }
  const issuers = (name: string) => Array.from({ length: 8 }, (_, n) => `https://${name}-${n}.example`);

  it("that do not answer delay no other account, and its own only above four", async () => {
    const { of } = reader();
    const waiting = issuers("slow").map((issuer) => of(eve, issuer));
    const refused = await Promise.allSettled(waiting.slice(issuerLimits.perAccount));
    expect(refused.map((one) => one.status === "rejected" && one.reason instanceof IssuerBusy)).toEqual(
      Array.from({ length: 4 }, () => true),
    );
    await expect(of(eve, "https://quick.example")).rejects.toBeInstanceOf(IssuerBusy);
    await expect(of(acme, "https://ci.example")).resolves.toBeTypeOf("function");
  });

  it("displace its own keys only, the longest unused first", async () => {
    const { of, reads } = reader();
    await of(acme, "https://ci.example");
    const [first = "", ...others] = issuers("quick");
    await of(eve, first);
    for (const issuer of others) {
      await of(eve, issuer);
      await of(eve, first);
    }
    await of(acme, "https://ci.example");
    expect(reads).toEqual(["https://ci.example", first, ...others]);
    await of(eve, others[0] as string);
    expect(reads.at(-1)).toBe(others[0]);
  });
});

describe("a pattern of subjects", () => {
  it.each([
    ["repo:acme/app:*", "repo:acme/app:ref:main", true],
    ["repo:acme/app:*", "repo:acme/app", false],
    ["repo:acme/*:environment:*", "repo:acme/app:environment:production", true],
    ["repo:acme/*:environment:production", "repo:acme/app:environment:production", true],
    ["repo:acme/*:environment:production", "repo:acme/app:environment:production2", false],
    ["ab*ba", "aba", false],
    ["a*b*c", "abc", true],
    ["a*b*c", "acb", false],
    ["a", "a", true],
    ["a", "A", false],
  ])("%s on %s: %s", (pattern, subject, isMatch) => {
    expect(matchesSubject(pattern, subject)).toBe(isMatch);
  });

  it("takes no longer than its length for a hostile subject", () => {
    expect(matchesSubject(`a${"*a".repeat(250)}b`, "a".repeat(16_000))).toBe(false);
  });

  it("names the owner where everybody gets tokens of the issuer", () => {
    const github = "https://token.actions.githubusercontent.com";
    expect(patternProblem(github, "repo:acme/app:*")).toBeUndefined();
    expect(patternProblem(github, "repo:acme/*")).toBeUndefined();
    expect(patternProblem(github, "repo:*")).toContain("must name whose");
    expect(patternProblem(github, "repo:ac*")).toContain("must name whose");
    expect(patternProblem(`${github}/`, "repo:ac*/app")).toContain("must name whose");
    expect(patternProblem("https://ci.example.com", "*")).toContain("must not begin");
  });
});
