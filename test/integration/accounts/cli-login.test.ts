// The browser's approval at one replica, the command line's wait at another, over one PostgreSQL.

import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createApiTokens } from "../../../control-plane/accounts/api-tokens.ts";
import { createAuthenticator } from "../../../control-plane/accounts/authenticate.ts";
import { createCliLogins } from "../../../control-plane/accounts/cli-login.ts";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { noRules } from "../../../control-plane/accounts/key-rules.ts";
import { keyMonthBudget } from "../../../control-plane/billing/scopes.ts";
import { createCliLoginStore } from "../../../control-plane/store/accounts/sign-in-store.ts";
import { createTokenStore } from "../../../control-plane/store/accounts/tokens-store.ts";
import { createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { createAccountFeatures } from "../../../control-plane/wiring/accounts.ts";
import { nano } from "../../../proto/money.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, type World } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const noOutbound = { blocked: [], mayBePlain: () => false, plainIssuers: [] };
const loginId = "abcd1234ABCD1234abcd1234ABCD1234";
const ip = "192.0.2.1";
const never = new AbortController().signal;

async function worldOfAda() {
  const world = await openWorld(postgres);
  const { account } = await world.accounts.createAccount({
    email: "a@example.com",
    displayName: "ada",
    creditNanoUsd: nano(0n),
    isAdmin: false,
  });
  const replica = async () => {
    const feed = createChangeFeed({ pool: world.pool, log });
    const features = createAccountFeatures({ ...depsOf(world), changes: feed });
    await feed.start();
    onTestFinished(() => feed.stop());
    return features.cliLogins;
  };
  return { world, actor: { account, ip: "198.51.100.7" }, replica };
}

function depsOf(world: World) {
  const { db, secrets, accounts, accountStore } = world;
  const dataKeys = createDataKeys({ store: accountStore, secrets });
  const tokens = createApiTokens({
    monthOf: keyMonthBudget,
    store: { ...accountStore, ...createTokenStore(db) },
    dataKeys,
    secrets,
  });
  const deployments = { list: async () => [], get: async () => undefined, change: async () => false };
  return {
    db,
    secrets,
    accounts,
    dataKeys,
    tokens,
    deployments,
    isSignUpOpen: false,
    mail: undefined,
    log,
    publicUrl: undefined,
    outbound: noOutbound,
  };
}

const keysOf = async (world: World) => {
  const { rows } = await world.pool.query("select name from api_key where revoked_at is null and name <> 'auto'");
  return rows.map(({ name }) => name);
};

describe("a command line's login", () => {
  it("gives a waiting client at another replica a working key within 2 s of the approval", async () => {
    const { world, actor, replica } = await worldOfAda();
    const [browser, terminal] = [await replica(), await replica()];
    const waiting = terminal.wait(loginId, ip, never);
    const began = performance.now();
    await browser.approve(actor, loginId);
    const key = (await waiting) as string;
    expect(performance.now() - began).toBeLessThan(promisedMs(2_000));
    const authenticator = createAuthenticator({
      store: { ...world.accountStore, ...createTokenStore(world.db) },
      secrets: world.secrets,
      log,
      registry: new Registry(),
      changes: { on: () => {} },
    });
    expect(await authenticator.authenticate(key, ip)).toMatchObject({ account: actor.account, via: "key" });
    expect(await keysOf(world)).toEqual([expect.stringMatching(/^cli-\d{4}-\d\d-\d\d-[0-9a-z]{4}$/)]);
    const { rows } = await world.pool.query("select actor, ip from audit where action = 'key.create'");
    expect(rows).toContainEqual({ actor: actor.account, ip: actor.ip });
  });

  it("responds to one of two waiting clients, once", async () => {
    const { actor, replica } = await worldOfAda();
    const [one, two] = [await replica(), await replica()];
    const waits = [one, two].map((each) => each.wait(loginId, ip, never));
    await one.approve(actor, loginId);
    const ends = await Promise.allSettled(waits);
    expect(ends.filter((end) => end.status === "fulfilled")).toHaveLength(1);
    expect(ends.find((end) => end.status === "rejected")?.reason).toMatchObject({ code: "login_used" });
    await expect(two.wait(loginId, ip, never)).rejects.toMatchObject({ code: "login_used" });
  });

  it("creates one key for any number of approvals", async () => {
    const { world, actor, replica } = await worldOfAda();
    const logins = await replica();
    const ends = await Promise.allSettled([1, 2, 3].map(() => logins.approve(actor, loginId)));
    expect(ends.filter((end) => end.status === "fulfilled")).toHaveLength(1);
    expect(await keysOf(world)).toHaveLength(1);
    await expect(logins.approve(actor, loginId)).rejects.toMatchObject({ code: "login_used" });
  });

  it("stores neither login id nor key in readable form", async () => {
    const { world, actor, replica } = await worldOfAda();
    const logins = await replica();
    await logins.approve(actor, loginId);
    const key = (await logins.wait(loginId, ip, never)) as string;
    const { rows } = await world.pool.query(
      "select l::text as row from cli_login l union all select c::text from change c union all select k::text from api_key k",
    );
    const dump = rows.map(({ row }) => row).join("\n");
    expect(dump).toContain("cli_login");
    for (const secret of [loginId, key])
      for (const form of [secret, Buffer.from(secret).toString("hex")]) expect(dump).not.toContain(form);
  });
});

describe("the wait", () => {
  async function alone(waitMs: number) {
    const { world, actor } = await worldOfAda();
    const clock = { unixMs: Date.UTC(2026, 0, 1) };
    const tokens = depsOf(world).tokens;
    const logins = createCliLogins({
      store: createCliLoginStore(world.db),
      pepper: world.secrets.pepper,
      makeKey: async ({ account }, name) =>
        (await tokens.create(account, name, noRules, { by: account, ip, note: "" })).key,
      openKey: async () => "stk_x",
      endKey: async () => {},
      changes: { on: () => {} },
      unixMs: () => clock.unixMs,
      waitMs,
    });
    return { logins, clock, actor };
  }

  it("times out with a clear sentence", async () => {
    const { logins } = await alone(50);
    await expect(logins.wait(loginId, ip, never)).rejects.toMatchObject({ code: "login_timed_out" });
  });

  it("ends when the client disconnects", async () => {
    const { logins } = await alone(60_000);
    const gone = new AbortController();
    const waiting = logins.wait(loginId, ip, gone.signal);
    gone.abort();
    expect(await waiting).toBeUndefined();
  });

  it("finds an earlier approval, for ten minutes", async () => {
    const { logins, clock, actor } = await alone(50);
    await logins.approve(actor, loginId);
    clock.unixMs += 599_999;
    expect(await logins.wait(loginId, ip, never)).toBe("stk_x");
    const other = loginId.replace("a", "b");
    await logins.approve(actor, other);
    clock.unixMs += 600_000;
    await expect(logins.wait(other, ip, never)).rejects.toMatchObject({ code: "login_used" });
  });

  it("may be open ten times from one network, and again when one has ended", async () => {
    const { logins } = await alone(60_000);
    const gone = new AbortController();
    const idOf = (i: number) => loginId.slice(0, 30) + String(i).padStart(2, "0");
    const last = new AbortController();
    const waits = Array.from({ length: 9 }, (_, i) => logins.wait(idOf(i), `2001:db8::${i}`, gone.signal));
    const tenth = logins.wait(idOf(9), "2001:db8::9", last.signal);
    await expect(logins.wait(idOf(10), "2001:db8::a", gone.signal)).rejects.toMatchObject({ code: "login_busy" });
    const elsewhere = logins.wait(idOf(11), "2001:db8:0:1::1", gone.signal);
    last.abort();
    await tenth;
    const again = logins.wait(idOf(12), "2001:db8::b", gone.signal);
    gone.abort();
    expect(await Promise.all([...waits, elsewhere, again])).toEqual(Array(11).fill(undefined));
  });
});
