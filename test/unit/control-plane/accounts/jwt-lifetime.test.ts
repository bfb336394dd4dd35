import { describe, expect, it } from "vitest";
import { forge, nowS, openRing, user } from "./key-ring.ts";

const payload = { sub: user, exp: nowS + 3600 };

function ring() {
  const opened = openRing();
  return { ...opened, key: opened.add("auto") };
}

describe("the signing key", () => {
  it("invalidates its tokens when revoked, also if a new key has the same name", async () => {
    const { key, open, revoke, add } = ring();
    const token = forge(key);
    expect(await open(token)).toBeDefined();
    revoke(key);
    expect(await open(token)).toBeUndefined();
    const successor = add("auto");
    expect(await open(token)).toBeUndefined();
    expect(await open(forge(successor))).toMatchObject({ key: successor.id });
  });

  it("with allowed addresses limits its tokens to them", async () => {
    const { open, add } = openRing();
    const key = add("auto", { allowedIps: ["10.0.0.0/8"] });
    for (const secret of [key.secret, forge(key)]) {
      expect(await open(secret, "10.1.2.3")).toBeDefined();
      expect(await open(secret, "::ffff:10.1.2.3")).toBeDefined();
      expect(await open(secret, "192.0.2.1")).toBeUndefined();
      expect(await open(secret, "10.1.2.3")).toBeDefined();
    }
  });

  it("applies its own and its account's monthly limits", async () => {
    const { open, add } = openRing();
    const key = add("auto", { hasKeyLimit: true, hasAccountLimit: true });
    expect((await open(forge(key)))?.spending).toMatchObject({ hasKeyLimit: true, hasAccountLimit: true });
    expect((await open(key.secret))?.spending).toEqual({ hasKeyLimit: true, hasAccountLimit: true, token: null });
  });
});

describe("a verified token", () => {
  it("is cached, and other tokens of its key need no database", async () => {
    const { key, open, asked, authenticator } = ring();
    const token = forge(key);
    await open(token);
    expect(authenticator.authenticate(token, "192.0.2.1")).not.toBeInstanceOf(Promise);
    await open(forge(key, { payload: { ...payload, jti: "2" } }));
    expect(asked.findSigningKey).toBe(1);
  });

  it("is verified again after five minutes", async () => {
    const { key, open, asked, clock } = ring();
    const token = forge(key);
    await open(token);
    clock.monotonicMs = 301_000;
    await open(token);
    expect(asked.findSigningKey).toBe(2);
  });

  it("counts as a use of the key that signed it", async () => {
    const { key, open, authenticator, used } = ring();
    authenticator.start();
    await open(forge(key));
    await authenticator.stop();
    expect(used).toEqual([key.id]);
  });

  it("revoked during verification is refused afterwards", async () => {
    const { key, open, store, revoke } = ring();
    const find = store.findSigningKey;
    let during: (() => void) | undefined = () => revoke(key);
    store.findSigningKey = async (...args) => {
      const row = await find(...args);
      during?.();
      during = undefined;
      return row;
    };
    expect(await open(forge(key))).toBeUndefined();
  });
});
