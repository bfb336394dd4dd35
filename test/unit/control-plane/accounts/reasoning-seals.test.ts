import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createReasoningSeals } from "../../../../control-plane/accounts/reasoning-seals.ts";
import type { AccountId } from "../../../../proto/ids.ts";

const ada = "u:1" as AccountId;
const bob = "u:2" as AccountId;

function seals() {
  const keys = new Map([
    [ada, randomBytes(32)],
    [bob, randomBytes(32)],
  ]);
  const reads: AccountId[] = [];
  const of = (account: AccountId) => {
    reads.push(account);
    return Promise.resolve(keys.get(account));
  };
  return { seals: createReasoningSeals({ of }), reads };
}

describe("sealed reasoning", () => {
  it("is opened by the account that received it and by no other", async () => {
    const { seals: all } = seals();
    const sealed = (await all.of(ada)).seal("It is Tuesday. é");
    expect(sealed).not.toContain("Tuesday");
    expect((await all.of(ada)).open(sealed)).toBe("It is Tuesday. é");
    expect((await all.of(bob)).open(sealed)).toBeUndefined();
  });

  it("does not open when it was changed, cut or made up", async () => {
    const seal = await seals().seals.of(ada);
    const sealed = seal.seal("x".repeat(100));
    const other = sealed[40] === "A" ? "B" : "A";
    for (const text of [
      sealed.slice(0, 40) + other + sealed.slice(41),
      sealed.slice(0, 60),
      "",
      "EqQBCgIYAhIM1gbcDa9GJwZA",
    ])
      expect(seal.open(text)).toBeUndefined();
  });

  it("reads the data key of an account once", async () => {
    const { seals: all, reads } = seals();
    await all.of(ada);
    expect(all.of(ada)).not.toBeInstanceOf(Promise);
    expect(reads).toEqual([ada]);
  });

  it("is refused for an account without a data key", async () => {
    await expect(seals().seals.of("u:9" as AccountId)).rejects.toThrow("no data key");
  });
});
