// Scoped tokens and revocation over a real PostgreSQL: two control planes' authenticators on one database.

import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { createApiTokens } from "../../../control-plane/accounts/api-tokens.ts";
import { createAuthenticator } from "../../../control-plane/accounts/authenticate.ts";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { InvalidApiKey } from "../../../control-plane/accounts/errors.ts";
import { noRules } from "../../../control-plane/accounts/key-rules.ts";
import { roleRefusal } from "../../../control-plane/accounts/permissions.ts";
import { createScopedJwts, mintLimit } from "../../../control-plane/accounts/scoped-jwt.ts";
import { keyMonthBudget } from "../../../control-plane/billing/scopes.ts";
import { createAttemptStore } from "../../../control-plane/store/accounts/sign-in-store.ts";
import { createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import type { KeyId } from "../../../proto/ids.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, type World } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const ip = "192.0.2.7";
const nowS = () => Math.floor(Date.now() / 1000);
const request = {
  apiKeyName: "ci",
  models: undefined,
  expiresAtS: undefined,
  expiresDeltaS: undefined,
  limitUsd: undefined,
};

async function open() {
  const world = await openWorld(postgres);
  const { accountStore, tokenStore, secrets } = world;
  const store = { ...accountStore, ...tokenStore, ...createAttemptStore(world.db) };
  const tokens = createApiTokens({
    monthOf: keyMonthBudget,
    store,
    dataKeys: createDataKeys({ store: accountStore, secrets }),
    secrets,
  });
  const scoped = createScopedJwts({ store, secrets });
  const account = await world.account(0n);
  const act = { by: account, ip, note: "" };
  const key = await tokens.create(account, "ci", noRules, act);
  return { world, tokens, scoped, account, act, key };
}

async function replica(world: World) {
  const feed = createChangeFeed({ pool: world.pool, log });
  const auth = createAuthenticator({
    store: world.accountStore,
    secrets: world.secrets,
    log,
    registry: new Registry(),
    changes: feed,
  });
  await feed.start();
  onTestFinished(() => feed.stop());
  return async (secret: string) => auth.authenticate(secret, ip);
}

describe("a scoped token", () => {
  it("is created, used and inspected only by its account, with any of its keys", async () => {
    const { world, scoped, account, act, key } = await open();
    const token = await scoped.mint(
      { account },
      { ...request, models: ["a/b"], expiresDeltaS: 60, limitUsd: 0.25 },
      act,
    );
    const used = await (await replica(world))(token);
    expect(used).toMatchObject({ account, key: key.key, via: "jwt" });
    const budget = used.spending.token?.budget ?? "";
    expect(await scoped.inspect(account, token)).toMatchObject({ models: ["a/b"], limit: 250_000_000n, spent: 0n });
    const { rows } = await world.pool.query(
      "insert into budget (budget_id, scope, account_id, lim, spent) values ($1, 'jwt', $2, 250000000, 7) returning spent",
      [budget, account],
    );
    expect(rows).toHaveLength(1);
    expect(await scoped.inspect(account, token.replace("jwt:", ""))).toMatchObject({ spent: 7n, budget });
    await expect(scoped.inspect(await world.account(0n), token)).rejects.toMatchObject({
      code: "scoped_jwt_not_found",
    });
    for (const text of ["", "jwt:", `${token}x`, key.token])
      await expect(scoped.inspect(account, text)).rejects.toMatchObject({ code: "scoped_jwt_not_found" });
  });

  it("has the claim `model` if created for one model, so that any JWT library can read it", async () => {
    const { scoped, account, act } = await open();
    const claimsOf = async (models: readonly string[] | undefined) => {
      const [, payload = ""] = (await scoped.mint({ account }, { ...request, models }, act)).split(".");
      return JSON.parse(Buffer.from(payload, "base64url").toString()) as Record<string, unknown>;
    };
    expect(await claimsOf(["a/b"])).toMatchObject({ model: "a/b", models: ["a/b"] });
    expect(await claimsOf(["a/b", "c/d"])).toMatchObject({ models: ["a/b", "c/d"] });
    expect(await claimsOf(["a/b", "c/d"])).not.toHaveProperty("model");
    expect(await claimsOf(undefined)).not.toHaveProperty("models");
  });

  it("for realtime sessions has a role that allows nothing else", async () => {
    const { world, scoped, account, act } = await open();
    const token = await scoped.mint({ account }, { ...request, models: ["a/b"], scope: "realtime" }, act);
    const used = await (await replica(world))(token);
    expect(used).toMatchObject({ role: "realtime", via: "jwt", isAdmin: false });
    expect(roleRefusal("realtime", used)).toBeUndefined();
    for (const right of ["listModels", "infer", "read", "change", "operate"] as const)
      expect(roleRefusal(right, used)).toMatchObject({ code: "role_not_allowed" });
  });

  it("is refused above an account's limit until its window ends", async () => {
    const { world, scoped, account, act } = await open();
    await scoped.mint({ account }, request, act);
    await world.pool.query("update sign_in_attempt set taken = $1", [mintLimit.max]);
    await expect(scoped.mint({ account }, request, act)).rejects.toMatchObject({ code: "too_many_attempts" });
    await world.pool.query("update sign_in_attempt set expires_at = now() - interval '1 second'");
    await expect(scoped.mint({ account }, request, act)).resolves.toMatch(/^jwt:/);
  });

  it("lives a year by default, and no longer", async () => {
    const { scoped, account, act } = await open();
    const year = 365 * 24 * 3600;
    const whole = await scoped.inspect(account, await scoped.mint({ account }, request, act));
    expect(Math.abs(whole.expiresAtS - nowS() - year)).toBeLessThan(60);
    expect(whole).toMatchObject({ models: null, limit: null });
    const at = nowS() + 1000;
    expect(
      await scoped.inspect(account, await scoped.mint({ account }, { ...request, expiresAtS: at }, act)),
    ).toMatchObject({
      expiresAtS: at,
    });
    for (const expiry of [{ expiresAtS: nowS() - 1 }, { expiresAtS: at + year }, { expiresAtS: at, expiresDeltaS: 5 }])
      await expect(scoped.mint({ account }, { ...request, ...expiry }, act)).rejects.toMatchObject({
        code: "bad_expiry",
      });
  });

  it("needs a live key of that name, and its creation is audited without the token", async () => {
    const { world, scoped, tokens, account, act, key } = await open();
    await expect(scoped.mint({ account }, { ...request, apiKeyName: "CI" }, act)).rejects.toMatchObject({
      code: "api_key_not_found",
    });
    const [first, second] = [
      await scoped.mint({ account }, request, act),
      await scoped.mint({ account }, request, act),
    ];
    expect(first).not.toBe(second);
    const { rows } = await world.pool.query(
      "select actor, subject, ip, after::text from audit where action = 'jwt.mint'",
    );
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatchObject({ actor: account, subject: key.key, ip });
    expect(rows[0].after).not.toContain(first.split(".")[2] as string);
    await tokens.revoke({ account }, key.key, act);
    await expect(scoped.mint({ account }, request, act)).rejects.toMatchObject({ code: "api_key_not_found" });
  });
});

describe("a revoked key", () => {
  it("and its tokens are refused by every replica within 2 s, and a new key of that name does not revive them", async () => {
    const { world, scoped, tokens, account, act, key } = await open();
    const replicas = [await replica(world), await replica(world)];
    const token = await scoped.mint({ account }, request, act);
    for (const use of replicas)
      for (const secret of [key.token, token]) expect(await use(secret)).toMatchObject({ key: key.key });
    await tokens.revoke({ account }, key.key, act);
    const revokedMs = performance.now();
    for (const use of replicas) {
      for (const secret of [key.token, token])
        await vi.waitFor(() => expect(use(secret)).rejects.toThrow(InvalidApiKey), { timeout: 20_000, interval: 5 });
    }
    expect(performance.now() - revokedMs).toBeLessThan(promisedMs(2_000));
    const successor = await tokens.create(account, "ci", noRules, act);
    for (const use of replicas) {
      await expect(use(token)).rejects.toThrow(InvalidApiKey);
      const fresh = await scoped.mint({ account }, request, act);
      await vi.waitFor(async () => expect(await use(fresh)).toMatchObject({ key: successor.key }), {
        timeout: 20_000,
        interval: 5,
      });
    }
  });

  it("is refused within 2 s also if the notification to the replicas is lost", async () => {
    const { world, key } = await open();
    const use = await replica(world);
    await use(key.token);
    // The rows alone, as a writer would leave them whose NOTIFY never came.
    await world.db.transaction().execute(async (trx) => {
      await trx.updateTable("apiKey").set({ revokedAt: new Date() }).where("tokenId", "=", key.key).execute();
      await trx.insertInto("change").values({ topic: "key", subject: key.key }).execute();
    });
    const revokedMs = performance.now();
    await vi.waitFor(() => expect(use(key.token)).rejects.toThrow(InvalidApiKey), { timeout: 20_000, interval: 5 });
    expect(performance.now() - revokedMs).toBeLessThan(promisedMs(2_000));
  });

  it("has the same effect if it is only restricted to other addresses", async () => {
    const { world, tokens, account, act, key } = await open();
    const use = await replica(world);
    await use(key.token);
    const other = { account, key: "another" as KeyId };
    await tokens.change(other, key.key, { allowedIps: ["10.0.0.0/8"] }, act);
    await vi.waitFor(() => expect(use(key.token)).rejects.toThrow(InvalidApiKey), {
      timeout: promisedMs(2_000),
      interval: 5,
    });
    await tokens.change(other, key.key, { allowedIps: ["192.0.2.0/24"] }, act);
    await vi.waitFor(async () => expect(await use(key.token)).toMatchObject({ account }), {
      timeout: promisedMs(2_000),
      interval: 5,
    });
  });
});
