// Sign-in through a real OpenID provider, over the real edge and a real PostgreSQL, and what attackers and faulty providers send.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createRecoveryCodes } from "../../control-plane/accounts/recovery-codes.ts";
import { checkRecentSignIn, type Session } from "../../control-plane/accounts/sessions.ts";
import { returnPath } from "../../control-plane/identity/return-path.ts";
import type { AccountId } from "../../proto/ids.ts";
import { act, Browser, closeIdentityEdge, identityStage, ip, rules, signIn } from "../fakes/identity-stage.ts";
import type { OidcServer } from "../fakes/oidc-server.ts";
import { sharedPostgres, type TestDatabases } from "../fakes/postgres.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(async () => {
  await closeIdentityEdge();
  await postgres.stop();
});

const stage = (options?: { readonly isPlainAllowed?: boolean }) => identityStage(postgres, options);

describe("a sign-in through an identity provider", () => {
  it("is not started by a page that loads the address as an image or a frame", async () => {
    const { addProvider, world } = await identityStage(postgres);
    const { start } = await addProvider();
    for (const dest of ["image", "iframe", "empty"]) {
      const response = await new Browser().get(start, { "sec-fetch-dest": dest });
      expect(response.headers.get("location")).toBeNull();
    }
    expect((await world.pool.query("select 1 from provider_sign_in")).rows).toEqual([]);
    expect((await new Browser().get(start, { "sec-fetch-dest": "document" })).status).toBe(303);
  });

  it("creates an account at the first sign-in and finds it again by its subject, also under another address", async () => {
    const { addProvider, sessionOf, world } = await stage();
    const provider = await addProvider();
    provider.server.person = { sub: "s1", email: "grace@example.com", email_verified: true };
    const first = await signIn(provider);
    expect(first.response.status).toBe(303);
    expect(first.response.headers.get("location")).toBe("/console");
    const session = await sessionOf(first.browser);
    expect(session).toMatchObject({ factors: ["oidc"], mustEnrol: false });
    expect(session?.caller).toMatchObject({ email: "grace@example.com", displayName: "grace", isAdmin: false });

    provider.server.person = { sub: "s1", email: "other@elsewhere.example", email_verified: false };
    const second = await signIn(provider);
    expect((await sessionOf(second.browser))?.caller.account).toBe(session?.caller.account);
    const { rows } = await world.pool.query("select hash from password");
    expect(rows).toEqual([]);
  });

  it("signs in to an existing account whose address both sides have verified", async () => {
    const { addProvider, makeAccount, sessionOf, world } = await stage();
    const account = await makeAccount("ada");
    await world.pool.query("update api_key set revoked_at = now() where account_id = $1", [account]);
    const { browser } = await signIn(await addProvider());
    expect((await sessionOf(browser))?.caller.account).toBe(account);
  });

  it("returns to the page where it started", async () => {
    const { addProvider } = await stage();
    const { start, callback } = await addProvider();
    const path = "/login?cli=abcdefghijklmnopqrstuvwxyz012345";
    const { response } = await signIn({ start: `${start}?fresh=1&return_to=${encodeURIComponent(path)}`, callback });
    expect(response.headers.get("location")).toBe(path);
  });

  it.each([
    ["an unverified address", { email: "ada@example.com", email_verified: false }, "does not confirm your e-mail"],
    ["an address without the claim", { email: "ada@example.com" }, "does not confirm your e-mail"],
    ["no address", {}, "does not confirm your e-mail"],
    ["a domain that is not listed", { email: "ada@evil.example", email_verified: true }, "not of a domain"],
    ["a domain that only ends like one", { email: "a@notexample.com", email_verified: true }, "not of a domain"],
    ["two at signs", { email: "ada@evil.example@example.com", email_verified: true }, "does not confirm your e-mail"],
  ])("is refused for %s", async (_what, claims, message) => {
    const { addProvider, sessionOf } = await stage();
    const provider = await addProvider();
    provider.server.person = { sub: "s1", ...claims };
    const { browser, response, text } = await signIn(provider);
    expect(response.status).toBe(403);
    expect(text).toContain(message);
    expect(await sessionOf(browser)).toBeUndefined();
  });

  it("counts a missing claim as verified where the operator said so, but not a false one", async () => {
    const { addProvider, sessionOf } = await stage();
    const provider = await addProvider({ trustsEmail: true });
    provider.server.person = { sub: "s1", email: "ada@example.com", email_verified: false };
    expect((await signIn(provider)).response.status).toBe(403);
    provider.server.person = { sub: "s1", email: "ada@example.com" };
    expect(await sessionOf((await signIn(provider)).browser)).toBeDefined();
  });

  it.each([
    ["an operator's account", { isAdmin: true }],
    ["an account whose address nobody has verified", { isVerified: false }],
  ])("does not take over %s", async (_what, options) => {
    const { addProvider, makeAccount, sessionOf } = await stage();
    await makeAccount("ada", options);
    const { browser, response, text } = await signIn(await addProvider());
    expect(response.status).toBe(409);
    expect(text).toContain("link Example under Security");
    expect(await sessionOf(browser)).toBeUndefined();
  });

  it("does not take over an account with a second factor", async () => {
    const { addProvider, makeAccount, sessionOf, world } = await stage();
    const account = await makeAccount("ada");
    await world.pool.query(
      "insert into second_factor (factor_id, account_id, kind, name, sealed) values ('f', $1, 'totp', 'app', '\\x00')",
      [account],
    );
    const { browser, response } = await signIn(await addProvider());
    expect(response.status).toBe(409);
    expect(await sessionOf(browser)).toBeUndefined();
  });
});

const addTotp = (pool: { query(text: string, values: unknown[]): Promise<unknown> }, account: string) =>
  pool.query(
    "insert into second_factor (factor_id, account_id, kind, name, sealed) values ('f', $1, 'totp', 'app', '\\x00')",
    [account],
  );

describe("an account that a provider has entered before", () => {
  it.each([
    ["created", false],
    ["was linked to by its address", true],
  ])("and %s is closed to it once it is an operator's, until the owner links it", async (_what, isOld) => {
    const { addProvider, makeAccount, sessionOf, world, link } = await stage();
    if (isOld) await makeAccount("ada");
    await world.pool.query("update api_key set revoked_at = now()");
    const provider = await addProvider();
    const account = (await sessionOf((await signIn(provider)).browser))?.caller.account as AccountId;
    await world.pool.query("update account set is_admin = true where account_id = $1", [account]);
    const { browser, response } = await signIn(provider);
    expect(response.status).toBe(409);
    expect(await sessionOf(browser)).toBeUndefined();
    expect(await link(account, provider.id, provider.server.person.sub as string)).toBe("done");
    expect((await sessionOf((await signIn(provider)).browser))?.caller.account).toBe(account);
  });

  it("asks for the second factor that its owner has added, unless the owner linked the provider", async () => {
    const { addProvider, sessionOf, world, link } = await stage();
    const provider = await addProvider();
    const account = (await sessionOf((await signIn(provider)).browser))?.caller.account as AccountId;
    await addTotp(world.pool, account);
    const { browser, response, text } = await signIn(provider);
    expect(response.status).toBe(200);
    expect(text).toContain('action="/login/second-factor"');
    expect(await sessionOf(browser)).toBeUndefined();
    const { rows } = await world.pool.query("select account_id, purpose, epoch from sign_in_challenge");
    expect(rows).toEqual([{ account_id: account, purpose: "second_factor", epoch: null }]);
    await link(account, provider.id, provider.server.person.sub as string);
    expect((await sessionOf((await signIn(provider)).browser))?.factors).toEqual(["oidc"]);
  });

  it("leads from its second factor to the page where the sign-in started, and to no other server", async () => {
    const { addProvider, sessionOf, world, edge } = await stage();
    const provider = await addProvider();
    const account = (await sessionOf((await signIn(provider)).browser))?.caller.account as AccountId;
    await addTotp(world.pool, account);
    const { codes, hashes } = createRecoveryCodes(world.secrets.pepper).make(account);
    for (const hash of hashes)
      await world.pool.query("insert into recovery_code (account_id, hash) values ($1, $2)", [account, hash]);
    const path = "/console/deployments?status=failed&page=2";
    const start = `${provider.start}?return_to=${encodeURIComponent(path)}`;
    const finish = async (code: string, change: Record<string, string> = {}) => {
      const { text } = await signIn({ ...provider, start });
      const fields = [...text.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [
        name,
        value?.replaceAll("&amp;", "&"),
      ]);
      const body = new URLSearchParams({ ...Object.fromEntries(fields), code, ...change });
      return fetch(`${edge.url}/login/second-factor`, { method: "POST", body, redirect: "manual" });
    };
    const wrong = await finish("0000-0000-0000-0000");
    expect([wrong.status, (await wrong.text()).includes('name="return_to" value="/console/deployments?')]).toEqual([
      401,
      true,
    ]);
    const [first = "", second = ""] = codes;
    expect((await finish(first)).headers.get("location")).toBe(path);
    expect((await finish(second, { return_to: "//evil.example" })).headers.get("location")).toBe("/console");
  });

  it.each(["password", "key"])("is not entered by its address while it has a %s of its own", async (what) => {
    const { addProvider, makeAccount, sessionOf, world } = await stage();
    const account = await makeAccount("ada");
    if (what === "password") {
      await world.pool.query("update api_key set revoked_at = now()");
      await world.pool.query("insert into password (account_id, hash) values ($1, 'x')", [account]);
    }
    const { browser, response, text } = await signIn(await addProvider());
    expect(response.status).toBe(409);
    expect(text).toContain("link Example under Security");
    expect(await sessionOf(browser)).toBeUndefined();
  });
});

describe("the reply of a provider", () => {
  const refused = async (run: Awaited<ReturnType<typeof signIn>>) => {
    expect(run.response.status).toBe(401);
    expect(run.text).toContain("was not accepted");
    expect(
      run.browser.cookies
        .values()
        .toArray()
        .some((jar) => jar.has("session")),
    ).toBe(false);
  };
  const tampered: readonly [string, OidcServer["tamper"]][] = [
    ["has another nonce", (claims, sign) => sign.signed({ ...claims, nonce: "other" })],
    ["has no nonce", ({ nonce: _, ...claims }, sign) => sign.signed(claims)],
    ["is for another audience", (claims, sign) => sign.signed({ ...claims, aud: "another-client" })],
    ["is of another issuer", (claims, sign) => sign.signed({ ...claims, iss: "https://login.evil.example" })],
    ["has expired", (claims, sign) => sign.signed({ ...claims, iat: 1_000, exp: 2_000 })],
    ["has the algorithm none", (claims, sign) => sign.unsigned(claims)],
    ["is signed by another key", (claims, sign) => sign.byOther(claims)],
  ];
  it.each(tampered)("is refused when its ID token %s", async (_what, tamper) => {
    const { addProvider } = await stage();
    const provider = await addProvider();
    provider.server.tamper = tamper;
    await refused(await signIn(provider));
  });

  it("is accepted when its ID token is only signed again", async () => {
    const { addProvider } = await stage();
    const provider = await addProvider();
    provider.server.tamper = (claims, sign) => sign.signed(claims);
    expect((await signIn(provider)).response.status).toBe(303);
    expect(provider.server.tamper).toBeUndefined();
  });

  it("is refused with another state, without one, and in another browser", async () => {
    const { addProvider } = await stage();
    const provider = await addProvider();
    const browser = new Browser();
    const back = new URL(await browser.walk(provider.start, provider.callback));
    const withState = (state: string | undefined) => {
      const url = new URL(back);
      if (state === undefined) url.searchParams.delete("state");
      else url.searchParams.set("state", state);
      return url.href;
    };
    for (const state of [undefined, "", "x".repeat(43)]) {
      const response = await browser.get(withState(state));
      expect(response.status).toBe(401);
    }
    // An attacker who makes a victim open the reply of the attacker's own sign-in.
    const victim = await new Browser().get(back.href);
    expect(victim.status).toBe(401);
    // That attempt has used the state up.
    expect((await browser.get(back.href)).status).toBe(401);
    expect(provider.server.asked).not.toContain("/token");
  });

  it("is accepted once", async () => {
    const { addProvider } = await stage();
    const provider = await addProvider();
    const run = await signIn(provider);
    expect(run.response.status).toBe(303);
    const again = await run.browser.get(run.back);
    expect(again.status).toBe(401);
    expect(provider.server.asked.filter((path) => path === "/token")).toHaveLength(1);
  });

  it("is refused with a code of another sign-in, because its verifier differs", async () => {
    const { addProvider } = await stage();
    const provider = await addProvider();
    const [own, stolen] = [new Browser(), new Browser()];
    const back = new URL(await own.walk(provider.start, provider.callback));
    const code = new URL(await stolen.walk(provider.start, provider.callback)).searchParams.get("code") ?? "";
    back.searchParams.set("code", code);
    expect((await own.get(back.href)).status).toBe(401);
  });

  it("is refused at the address of another provider, whose token endpoint never sees the code", async () => {
    const { addProvider } = await stage();
    const [honest, evil] = [await addProvider(), await addProvider({ domains: ["evil.example"] })];
    const browser = new Browser();
    const back = new URL(await browser.walk(honest.start, honest.callback));
    const mixed = await browser.get(evil.callback + back.search);
    expect(mixed.status).toBe(401);
    expect(evil.server.asked).not.toContain("/token");
  });

  it("is refused when it names another issuer", async () => {
    const { addProvider } = await stage();
    const provider = await addProvider();
    const browser = new Browser();
    const back = new URL(await browser.walk(provider.start, provider.callback));
    back.searchParams.set("iss", "https://login.evil.example");
    expect((await browser.get(back.href)).status).toBe(401);
    expect(provider.server.asked).not.toContain("/token");
  });

  it("does not give the subject of one provider the account of another's", async () => {
    const { addProvider, sessionOf } = await stage();
    const [first, second] = [await addProvider(), await addProvider({ domains: ["other.example"] })];
    first.server.person = { sub: "same", email: "ada@example.com", email_verified: true };
    second.server.person = { sub: "same", email: "eve@other.example", email_verified: true };
    const [ada, eve] = [await signIn(first), await signIn(second)];
    const accounts = [await sessionOf(ada.browser), await sessionOf(eve.browser)].map((one) => one?.caller.account);
    expect(new Set(accounts).size).toBe(2);
  });
});

describe("a session that a provider opened", () => {
  const hourMs = 3_600_000;
  const isRecent = (session: Session | undefined) => {
    try {
      checkRecentSignIn(session, Date.now());
      return true;
    } catch (error) {
      expect(error).toMatchObject({ code: "reauthentication_required" });
      return false;
    }
  };

  it("is as old as the sign-in at the provider, also when it is read again", async () => {
    const { addProvider, sessionOf } = await stage();
    const provider = await addProvider();
    const signedInAtMs = Math.floor(Date.now() / 1000) * 1000 - hourMs;
    provider.server.signedInAtMs = signedInAtMs;
    const { browser } = await signIn(provider);
    const session = await sessionOf(browser);
    expect(session?.authTimeMs).toBe(signedInAtMs);
    expect(isRecent(session)).toBe(false);
    const fresh = await signIn({ ...provider, start: `${provider.start}?fresh=1` }, browser);
    expect(fresh.response.status).toBe(303);
    expect(isRecent(await sessionOf(browser))).toBe(true);
  });

  it("is never recent when the provider does not report the time, nor later than it began", async () => {
    const { addProvider, sessionOf, world } = await stage();
    const provider = await addProvider();
    provider.server.sendsAuthTime = false;
    const unknown = await sessionOf((await signIn(provider)).browser);
    expect([unknown?.authTimeMs, isRecent(unknown)]).toEqual([0, false]);
    provider.server.sendsAuthTime = true;
    provider.server.signedInAtMs = Date.now() + hourMs;
    expect((await sessionOf((await signIn(provider)).browser))?.authTimeMs).toBeLessThanOrEqual(Date.now());
    // As a release stored it that knew no such time.
    await world.pool.query("update login_session set auth_time = null");
    const { browser } = await signIn(provider);
    await world.pool.query("update login_session set auth_time = null");
    expect(isRecent(await sessionOf(browser))).toBe(false);
  });

  it("opens no fresh sign-in when the browser removes the request for one", async () => {
    const { addProvider, sessionOf } = await stage();
    const provider = await addProvider();
    provider.server.signedInAtMs = Date.now() - hourMs;
    const browser = new Browser();
    const asked = new URL((await browser.get(`${provider.start}?fresh=1`)).headers.get("location") ?? "");
    expect([asked.searchParams.get("prompt"), asked.searchParams.get("max_age")]).toEqual(["login", "0"]);
    asked.searchParams.delete("prompt");
    asked.searchParams.delete("max_age");
    const response = await browser.get(await browser.walk(asked.href, provider.callback));
    expect(response.status).toBe(401);
    expect(await response.text()).toContain("does not confirm that you have just signed in");
    expect(await sessionOf(browser)).toBeUndefined();
  });

  it.each([
    ["has none", undefined],
    ["is 2 minutes older than the request", -120],
  ])("opens no fresh sign-in when auth_time %s", async (_what, offset) => {
    const { addProvider, sessionOf } = await stage();
    const provider = await addProvider();
    provider.server.tamper = ({ auth_time: at, ...claims }, { signed }) =>
      signed(offset === undefined ? claims : { ...claims, auth_time: Number(at) + offset });
    const run = await signIn({ ...provider, start: `${provider.start}?fresh=1` });
    expect(run.response.status).toBe(401);
    expect(run.text).toContain("auth_time");
    expect(await sessionOf(run.browser)).toBeUndefined();
  });

  it("is fresh by a provider whose clock is 30 seconds behind", async () => {
    const { addProvider, sessionOf } = await stage();
    const provider = await addProvider();
    provider.server.tamper = ({ auth_time: at, ...claims }, { signed }) =>
      signed({ ...claims, auth_time: Number(at) - 30 });
    const { browser } = await signIn({ ...provider, start: `${provider.start}?fresh=1` });
    expect(isRecent(await sessionOf(browser))).toBe(true);
  });
});

describe("return_to", () => {
  it.each([
    "//evil.example",
    "/\\evil.example",
    "https://evil.example/console",
    "/console/../../\\evil.example",
    "/consoles",
    "/v1/me",
    "javascript:alert(1)",
    "/\t/evil.example",
    "/console\r\nset-cookie: a=b",
    `/console?${"a".repeat(600)}`,
  ])("leads to the console instead of %j", (path) => {
    expect(returnPath(path)).toBe("/console");
  });

  it.each(["/console", "/console/security?x=1", "/login", "/login?cli=abc"])("leads to %s", (path) => {
    expect(returnPath(path)).toBe(path);
  });
});

describe("a provider's address", () => {
  it("is never called when it is plain HTTP or private and the operator has not allowed it", async () => {
    const { features, edge } = await stage({ isPlainAllowed: false });
    const create = (issuer: string) => features.identityProviders.create(rules({ issuer }), act);
    await expect(create("http://127.0.0.1:9")).rejects.toMatchObject({ code: "bad_identity_provider" });
    await expect(create("https://user@login.example.com")).rejects.toMatchObject({ code: "bad_identity_provider" });
    expect((await fetch(`${edge.url}/v1/auth/oidc/unknown/start`, { redirect: "manual" })).status).toBe(404);
  });
});

describe("a domain with enforced sign-in", () => {
  it("has no other sign-in, whether or not an account has the address", async () => {
    const { features, addProvider, makeAccount } = await stage();
    const account = await makeAccount("ada");
    await features.signIn.setPassword(
      { account, ip },
      { password: "correct horse staple", current: undefined },
      undefined,
    );
    const { id } = await addProvider({ isEnforced: true });
    const visitor = { ip, cookie: undefined, device: undefined, site: undefined };
    const replies = [];
    for (const email of ["ada@example.com", "nobody@EXAMPLE.com"]) {
      const attempts = [
        features.signIn.signIn({ email, password: "correct horse staple" }, visitor),
        features.signIn.signUp({ email, password: "correct horse staple", displayName: "x" }, visitor),
      ];
      const codes = await Promise.all(
        attempts.map((one) =>
          one.then(
            () => "done",
            (error) => `${error.code} ${error.message}`,
          ),
        ),
      );
      replies.push(codes);
      for (const code of codes) expect(code).toContain(`sso_required`);
      expect(codes[0]).toContain(`/v1/auth/oidc/${id}/start`);
    }
    expect(replies[0]).toEqual(replies[1]);
    await expect(features.profiles.change({ account, ip }, { email: "ada@gmail.example" })).rejects.toMatchObject({
      code: "sso_required",
    });
    const own = features.signIn.setPassword(
      { account, ip },
      { password: "another long phrase", current: undefined },
      undefined,
    );
    await expect(own).rejects.toMatchObject({ code: "sso_required" });
    await expect(features.signIn.createLink({ account, ip })).rejects.toMatchObject({ code: "sso_required" });
  });

  it.each(["\uff45xample.com", "example.com.", "ex\u00adample.com", "bücher.example"])(
    "has no other sign-in for the spelling %s",
    async (domain) => {
      const { features, addProvider } = await stage();
      await addProvider({ isEnforced: true, domains: ["example.com", "xn--bcher-kva.example"] });
      const visitor = { ip, cookie: undefined, device: undefined, site: undefined };
      const given = { email: `ada@${domain}`, password: "correct horse staple", displayName: "x" };
      await expect(features.signIn.signUp(given, visitor)).rejects.toMatchObject({ code: "sso_required" });
      await expect(features.signIn.signIn(given, visitor)).rejects.toMatchObject({ code: "sso_required" });
    },
  );

  it("has no other sign-in where PostgreSQL lowers letters that JavaScript does not", async () => {
    const { features, addProvider, makeAccount, world } = await stage();
    const { rows } = await world.pool.query("select lower(U&'\\0130') = 'i' as lowers");
    expect(rows).toEqual([{ lowers: true }]);
    await makeAccount("ada", { isVerified: false });
    await addProvider({ isEnforced: true, domains: ["example.com", "acme-inc.com"] });
    const visitor = { ip, cookie: undefined, device: undefined, site: undefined };
    const given = { email: "ada@acme-\u0130nc.com", password: "correct horse staple", displayName: "x" };
    await expect(features.signIn.signIn(given, visitor)).rejects.toMatchObject({ code: "sso_required" });
    await expect(features.signIn.signUp(given, visitor)).rejects.toMatchObject({ code: "sso_required" });
  });

  it("leaves an operator the sign-in link of an API key", async () => {
    const { features, addProvider, makeAccount } = await stage();
    const account = await makeAccount("root", { isAdmin: true });
    await addProvider({ isEnforced: true });
    const { ticket } = await features.signIn.createLink({ account, ip });
    const visitor = { ip, cookie: undefined, device: undefined, site: undefined };
    expect((await features.signIn.useLink(ticket, visitor)).session.caller.account).toBe(account);
  });
});
