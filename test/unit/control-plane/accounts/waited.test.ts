// A caller that waited for an instance is authenticated again, without the database if nothing changed.
import { expect, it } from "vitest";
import type { Caller } from "../../../../control-plane/accounts/caller.ts";
import { InvalidApiKey } from "../../../../control-plane/accounts/errors.ts";
import { forge, nowS, openRing, user } from "./key-ring.ts";

it("is unchanged while its key and account are unchanged, without a query", async () => {
  const ring = openRing();
  const key = ring.add("auto");
  const caller = (await ring.open(key.secret)) as Caller;
  const since = ring.authenticator.now();
  ring.announce("key", "another");
  ring.announce("account", "u:other");
  expect(ring.authenticator.again(caller, since)).toBe(caller);
  expect(ring.asked.findOwnKey).toBe(0);
});

it("is refused if its key was revoked meanwhile, as are its scoped tokens, but not for earlier changes", async () => {
  const ring = openRing();
  const key = ring.add("auto");
  const caller = (await ring.open(key.secret)) as Caller;
  const token = (await ring.open(forge(key))) as Caller;
  expect(token.via).toBe("jwt");
  const page = (await ring.open(forge(key, { payload: { sub: user, exp: nowS + 3600, scope: "realtime" } }))) as Caller;
  expect(page.role).toBe("realtime");
  const since = ring.authenticator.now();
  ring.announce("account", user);
  expect(await ring.authenticator.again(token, since)).toEqual(token);
  expect(await ring.authenticator.again(page, since)).toEqual(page);
  expect(await ring.authenticator.again(caller, since)).toEqual(caller);
  ring.revoke(key);
  await expect(ring.authenticator.again(caller, since)).rejects.toBeInstanceOf(InvalidApiKey);
  await expect(ring.authenticator.again(token, since)).rejects.toBeInstanceOf(InvalidApiKey);
  expect(ring.authenticator.again(caller, ring.authenticator.now())).toBe(caller);
});

it("is refused if its key became one for reading in the meantime, as are its scoped tokens", async () => {
  const ring = openRing();
  const key = ring.add("auto");
  const callers = [await ring.open(key.secret), await ring.open(forge(key))] as Caller[];
  const since = ring.authenticator.now();
  ring.change(key, { role: "read" });
  for (const caller of callers)
    await expect(ring.authenticator.again(caller, since)).rejects.toMatchObject({ code: "role_not_allowed" });
  ring.change(key, { role: "inference" });
  for (const caller of callers)
    expect(await ring.authenticator.again(caller, since)).toMatchObject({ role: "inference" });
});

it("is refused if its key no longer allows its address, as are its scoped tokens", async () => {
  const ring = openRing();
  const key = ring.add("auto");
  const callers = [await ring.open(key.secret), await ring.open(forge(key))] as Caller[];
  const since = ring.authenticator.now();
  ring.change(key, { allowedIps: ["203.0.113.0/24"] });
  for (const caller of callers) {
    await expect(ring.authenticator.again(caller, since, "198.51.100.1")).rejects.toBeInstanceOf(InvalidApiKey);
    expect(await ring.authenticator.again(caller, since, "203.0.113.9")).toEqual(caller);
  }
});

it("whose token expired while it waited is refused", async () => {
  const ring = openRing();
  const key = ring.add("auto");
  const token = (await ring.open(forge(key))) as Caller;
  ring.clock.unixMs = (nowS + 400 * 24 * 3_600) * 1_000;
  expect(() => ring.authenticator.again(token, ring.authenticator.now())).toThrow(InvalidApiKey);
});
