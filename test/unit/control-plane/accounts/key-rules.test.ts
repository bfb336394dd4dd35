// Callers of restricted keys and of the tokens that these sign.
import { describe, expect, it } from "vitest";
import { laterCallerOf } from "../../../../control-plane/accounts/authenticate.ts";
import { checkRules, type KeyRole, noRules } from "../../../../control-plane/accounts/key-rules.ts";
import { forge, nowS, openRing, user } from "./key-ring.ts";

const payloadWith = (claims: object) => ({ payload: { sub: user, exp: nowS + 3600, ...claims } });

describe("an expiring key", () => {
  it("is refused from its expiry on, with the tokens it signed, also when they were cached", async () => {
    const { add, open, clock, authenticator } = openRing();
    const key = add("auto", { expiresAtMs: (nowS + 60) * 1000 });
    const secrets = [key.secret, forge(key)];
    for (const secret of secrets) {
      expect(await open(secret)).toMatchObject({ expiresAtMs: (nowS + 60) * 1000 });
      expect(authenticator.authenticate(secret, "192.0.2.1")).not.toBeInstanceOf(Promise);
    }
    clock.unixMs = (nowS + 60) * 1000 - 1;
    for (const secret of secrets) expect(await open(secret)).toBeDefined();
    clock.unixMs += 1;
    for (const secret of secrets) expect(await open(secret)).toBeUndefined();
  });

  it("does not extend the life of a token, and a token does not extend that of its key", async () => {
    const { add, open } = openRing();
    const key = add("auto", { expiresAtMs: (nowS + 60) * 1000 });
    expect(await open(forge(key, payloadWith({ exp: nowS + 30 })))).toMatchObject({ expiresAtMs: (nowS + 30) * 1000 });
    expect(await open(forge(key, payloadWith({ exp: nowS + 90 })))).toMatchObject({ expiresAtMs: (nowS + 60) * 1000 });
  });

  it("ends requests that wait and work that runs later", async () => {
    const { add, open, clock, authenticator, store } = openRing();
    const key = add("auto", { expiresAtMs: (nowS + 60) * 1000 });
    const caller = await open(key.secret);
    const row = await store.findOwnKey(user, key.id);
    expect(laterCallerOf(row, clock.unixMs)).toMatchObject({ key: key.id });
    clock.unixMs = (nowS + 60) * 1000;
    expect(laterCallerOf(row, clock.unixMs)).toBeUndefined();
    expect(() => authenticator.again(caller as never, authenticator.now())).toThrow("API key");
  });
});

describe("a key restricted to models", () => {
  it("restricts the tokens it signed to models of both lists", async () => {
    const { add, open } = openRing();
    const key = add("auto", { allowedModels: ["a", "b"] });
    const modelsOf = async (secret: string) => [...((await open(secret))?.models ?? ["any"])];
    expect(await modelsOf(key.secret)).toEqual(["a", "b"]);
    expect(await modelsOf(forge(key))).toEqual(["a", "b"]);
    expect(await modelsOf(forge(key, payloadWith({ models: ["b", "c"] })))).toEqual(["b"]);
    expect(await modelsOf(forge(key, payloadWith({ models: ["c"] })))).toEqual([]);
    expect(await modelsOf(forge(add("other"), payloadWith({ models: ["c"] })))).toEqual(["c"]);
  });

  it("restricts a waiting request of its token after the key was restricted", async () => {
    const { add, open, authenticator, store, announce } = openRing();
    const key = add("auto");
    const since = authenticator.now();
    const caller = await open(forge(key, payloadWith({ models: ["a", "b"] })));
    const row = await store.findOwnKey(user, key.id);
    Object.assign(row as object, { allowedModels: ["b"] });
    announce("key", key.id);
    const again = await authenticator.again(caller as never, since);
    expect([...(again.models ?? [])]).toEqual(["b"]);
    expect(again).toMatchObject({ via: "jwt", isAdmin: false, role: "inference" });
  });
});

describe("the role of a key", () => {
  it.each<[KeyRole, boolean, KeyRole]>([
    ["admin", true, "inference"],
    ["read", false, "read"],
    ["inference", false, "inference"],
  ])("%s: has an operator's rights only as admin, and its tokens never exceed it", async (role, isAdmin, ofToken) => {
    const { add, open, clock, store } = openRing();
    const key = add("auto", { role });
    expect(await open(key.secret)).toMatchObject({ role, isAdmin });
    expect(await open(forge(key))).toMatchObject({ role: ofToken, isAdmin: false });
    const later = laterCallerOf(await store.findOwnKey(user, key.id), clock.unixMs);
    expect(later?.role).toBe(role === "read" ? undefined : role);
  });
});

it("shares the rates of a key with its tokens, but not its trust in the headers that name end users", async () => {
  const { add, open } = openRing();
  const key = add("auto", { requestsPerMinute: 5, trustsUserHeaders: true });
  const rates = { requestsPerMinute: 5, tokensPerMinute: null };
  expect(await open(key.secret)).toMatchObject({ rates, trustsUserHeaders: true });
  expect(await open(forge(key))).toMatchObject({ rates, trustsUserHeaders: false });
  expect(await open(add("other").secret)).toMatchObject({ rates: null, trustsUserHeaders: false });
});

it("accepts an expiry in the future, at most ten years away, and refuses an empty change", () => {
  const unixMs = nowS * 1000;
  const years = (count: number) => unixMs + count * 366 * 86_400_000;
  for (const expiresAtMs of [null, unixMs + 1, years(10)]) checkRules({ ...noRules, expiresAtMs }, unixMs);
  for (const expiresAtMs of [0, unixMs, years(10) + 1])
    expect(() => checkRules({ expiresAtMs }, unixMs)).toThrow("`expires_at`");
  expect(() => checkRules({}, unixMs)).toThrow("at least one");
});
