import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createPasswords } from "../../../../control-plane/accounts/password.ts";

const passwords = createPasswords(randomBytes(32));

describe("a password's hash", () => {
  it("names argon2id with the OWASP parameters, and a salt of its own", async () => {
    const [one, two] = await Promise.all([passwords.hash("correct horse"), passwords.hash("correct horse")]);
    expect(one).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    expect(one).not.toBe(two);
  });

  it("is verified by the password alone, in any spelling of its letters", async () => {
    const hash = await passwords.hash("caf\u00e9 au lait");
    expect(await passwords.verify("cafe\u0301 au lait", hash)).toBe(true);
    expect(await passwords.verify("cafe au lait", hash)).toBe(false);
    expect(await passwords.verify("", hash)).toBe(false);
  });

  it("is worth nothing without the secret beside the database", async () => {
    const hash = await passwords.hash("correct horse");
    expect(await createPasswords(randomBytes(32)).verify("correct horse", hash)).toBe(false);
  });

  it("is verified with the parameters it was made with", async () => {
    const cheap = "$argon2id$v=19$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA";
    expect(await passwords.verify("x", cheap)).toBe(false);
    await expect(passwords.verify("x", "plain")).rejects.toThrow(/unknown form/);
  });

  it("that is not there is never matched", async () => {
    expect(await passwords.verify("", undefined)).toBe(false);
  });
});

describe("hashing", () => {
  it("refuses rather than keeping a long line", async () => {
    const ends = await Promise.allSettled(Array.from({ length: 40 }, () => passwords.verify("x", undefined)));
    const refused = ends.filter((end) => end.status === "rejected").map((end) => end.reason);
    expect(refused).toHaveLength(6);
    expect(refused.every((reason) => reason.code === "sign_in_busy")).toBe(true);
    expect(await passwords.verify("x", undefined)).toBe(false);
  });
});
