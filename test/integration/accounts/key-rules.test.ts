// Rules of API keys over a real PostgreSQL: two control planes' authenticators on one database.

import { Registry } from "prom-client";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { createApiTokens } from "../../../control-plane/accounts/api-tokens.ts";
import { createAuthenticator } from "../../../control-plane/accounts/authenticate.ts";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { InvalidApiKey } from "../../../control-plane/accounts/errors.ts";
import { type KeyRules, noRules } from "../../../control-plane/accounts/key-rules.ts";
import { createScopedJwts } from "../../../control-plane/accounts/scoped-jwt.ts";
import { keyMonthBudget } from "../../../control-plane/billing/scopes.ts";
import { createAttemptStore } from "../../../control-plane/store/accounts/sign-in-store.ts";
import { createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import type { KeyId } from "../../../proto/ids.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const ip = "192.0.2.7";
const inAnHour = () => (Math.floor(Date.now() / 1000) + 3_600) * 1000;

async function open(rules: Partial<KeyRules>) {
  const world = await openWorld(postgres);
  const { accountStore, tokenStore, secrets } = world;
  const store = { ...accountStore, ...tokenStore, ...createAttemptStore(world.db) };
  const clock = { aheadMs: 0 };
  const unixMs = () => Date.now() + clock.aheadMs;
  const tokens = createApiTokens({
    monthOf: keyMonthBudget,
    store,
    dataKeys: createDataKeys({ store: accountStore, secrets }),
    secrets,
    unixMs,
  });
  const scoped = createScopedJwts({ store, secrets, unixMs });
  const account = await world.account(0n);
  const act = { by: account, ip, note: "" };
  const key = await tokens.create(account, "ci", { ...noRules, ...rules }, act);
  const replica = async () => {
    const feed = createChangeFeed({ pool: world.pool, log });
    const deps = { store: accountStore, secrets, log, registry: new Registry(), changes: feed, unixMs };
    const auth = createAuthenticator(deps);
    await feed.start();
    onTestFinished(() => feed.stop());
    return async (secret: string) => auth.authenticate(secret, ip);
  };
  const mint = (models: string[] | undefined) =>
    scoped.mint(
      { account },
      { apiKeyName: "ci", models, expiresAtS: undefined, expiresDeltaS: undefined, limitUsd: undefined },
      act,
    );
  return { world, tokens, account, act, key, clock, replica, mint };
}

const whole: KeyRules = {
  allowedIps: [ip],
  allowedModels: ["a/b", "c/d"],
  expiresAtMs: inAnHour(),
  requestsPerMinute: 1_000_000,
  tokensPerMinute: 1_000_000_000_000,
  role: "read",
  trustsUserHeaders: true,
};

it("stores every rule of a key, changes only the named ones, and audits both states", async () => {
  const { world, tokens, account, act, key } = await open(whole);
  expect(await tokens.get(account, key.key)).toMatchObject(whole);
  const caller = { account, key: key.key };
  expect(await tokens.change(caller, key.key, { role: "inference" }, act)).toMatchObject({
    ...whole,
    role: "inference",
  });
  expect(await tokens.change(caller, key.key, noRules, act)).toMatchObject(noRules);
  const rows = await world.db
    .selectFrom("audit")
    .selectAll()
    .where("subject", "=", key.key)
    .orderBy("auditId")
    .execute();
  expect(rows.map(({ action }) => action)).toEqual(["key.create", "key.change", "key.change"]);
  expect(rows[1]).toMatchObject({
    before: { role: "read" },
    after: { role: "inference", allowed_models: ["a/b", "c/d"] },
  });
});

it("creates and changes a key together with its monthly limit, in the budget that requests draw from", async () => {
  const { world, tokens, account, act } = await open({});
  const limitOf = async (key: KeyId) => {
    const budgetId = keyMonthBudget(key, Date.now());
    const row = await world.db.selectFrom("budget").select("lim").where("budgetId", "=", budgetId).executeTakeFirst();
    return row?.lim;
  };
  const { key, monthlyLimit } = await tokens.create(account, "limited", noRules, act, 5n);
  expect([monthlyLimit, await limitOf(key)]).toEqual([5n, 5n]);
  const caller = { account, key };
  expect(await tokens.change(caller, key, { role: "read" }, act)).toMatchObject({ role: "read", monthlyLimit: 5n });
  expect(await tokens.change(caller, key, {}, act, 7n)).toMatchObject({ role: "read", monthlyLimit: 7n });
  expect(await limitOf(key)).toBe(7n);
  expect(await tokens.change(caller, key, {}, act, null)).toMatchObject({ monthlyLimit: null });
  expect(await limitOf(key)).toBeNull();
  await expect(tokens.change(caller, key, {}, act)).rejects.toMatchObject({ code: "empty_change" });
  const rows = await world.db.selectFrom("audit").selectAll().where("subject", "=", key).orderBy("auditId").execute();
  const changed = (before: string | null, after: string | null) => ({
    action: "limit.change",
    account,
    before: { monthly_limit: before },
    after: { monthly_limit: after },
  });
  expect(rows.map(({ action, accountId, before, after }) => ({ action, account: accountId, before, after }))).toEqual([
    expect.objectContaining({ action: "key.create" }),
    changed(null, "5"),
    expect.objectContaining({ action: "key.change" }),
    changed("5", "7"),
    changed("7", null),
  ]);
});

it("applies a change at a second control plane within 2 s, also to tokens the key signed before", async () => {
  const { tokens, account, act, key, replica, mint } = await open({});
  const use = await replica();
  const token = await mint(["a/b", "c/d"]);
  for (const secret of [key.token, token]) await use(secret);
  const change = { role: "read", allowedModels: ["a/b"], tokensPerMinute: 5 } as const;
  await tokens.change({ account, key: key.key }, key.key, change, act);
  for (const secret of [key.token, token])
    await vi.waitFor(
      async () =>
        expect(await use(secret)).toMatchObject({
          role: "read",
          models: new Set(["a/b"]),
          rates: { requestsPerMinute: null, tokensPerMinute: 5 },
        }),
      { timeout: promisedMs(2_000), interval: 5 },
    );
});

it("refuses an expired key and its tokens at once, signs none with it, and accepts them after its expiry was extended", async () => {
  const { tokens, account, act, key, clock, replica, mint } = await open({ expiresAtMs: inAnHour() });
  const use = await replica();
  const token = await mint(undefined);
  for (const secret of [key.token, token]) expect(await use(secret)).toMatchObject({ key: key.key });
  clock.aheadMs = 3_601_000;
  for (const secret of [key.token, token]) await expect(use(secret)).rejects.toThrow(InvalidApiKey);
  await expect(mint(undefined)).rejects.toMatchObject({ code: "api_key_not_found" });
  await tokens.change({ account, key: key.key }, key.key, { expiresAtMs: inAnHour() + 7_200_000 }, act);
  for (const secret of [key.token, token])
    await vi.waitFor(async () => expect(await use(secret)).toMatchObject({ key: key.key }), {
      timeout: promisedMs(2_000),
      interval: 5,
    });
});
