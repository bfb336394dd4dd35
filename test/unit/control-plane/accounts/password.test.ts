import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createPasswords } from "../../../../control-plane/accounts/password.ts";

const passwords = createPasswords(randomBytes(32));

describe("a password's hash", () => {
  it("uses argon2id with the OWASP parameters, and a new salt", async () => {
    const [one, two] = await Promise.all([passwords.hash("correct horse"), passwords.hash("correct horse")]);
    expect(one).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    expect(one).not.toBe(two);
  });

  it("matches only the password, in any Unicode form of its letters", async () => {
    const hash = await passwords.hash("caf\u00e9 au lait");
    expect(await passwords.verify("cafe\u0301 au lait", hash)).toBe(true);
    expect(await passwords.verify("cafe au lait", hash)).toBe(false);
    expect(await passwords.verify("", hash)).toBe(false);
  });

  it("cannot be verified without the pepper outside the database", async () => {
    const hash = await passwords.hash("correct horse");
    expect(await createPasswords(randomBytes(32)).verify("correct horse", hash)).toBe(false);
  });

  it("is verified with the parameters of its creation", async () => {
    const cheap = "$argon2id$v=19$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA";
    expect(await passwords.verify("x", cheap)).toBe(false);
    await expect(passwords.verify("x", "plain")).rejects.toThrow(/unknown form/);
  });

  it("that is missing never matches", async () => {
    expect(await passwords.verify("", undefined)).toBe(false);
  });
});

describe("hashing", () => {
  it("refuses instead of queueing without limit", async () => {
    const ends = await Promise.allSettled(Array.from({ length: 40 }, () => passwords.verify("x", undefined)));
    const refused = ends.filter((end) => end.status === "rejected").map((end) => end.reason);
    expect(refused).toHaveLength(6);
    expect(refused.every((reason) => reason.code === "sign_in_busy")).toBe(true);
    expect(await passwords.verify("x", undefined)).toBe(false);
  });
});
