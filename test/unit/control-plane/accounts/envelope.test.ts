import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { makeApiKey } from "../../../../control-plane/accounts/api-key.ts";
import {
  lookupOf,
  makeDek,
  openApiKey,
  openSecret,
  sealApiKey,
  sealSecret,
  unwrapDek,
  wrapDek,
} from "../../../../control-plane/accounts/envelope.ts";
import type { AccountId, KeyId } from "../../../../proto/ids.ts";

const kek = { version: 1, bytes: randomBytes(32) };
const secrets = { keks: [kek], pepper: randomBytes(32) };
const [ada, bob] = ["u:1", "u:2"] as AccountId[] as [AccountId, AccountId];
const [first, second] = ["k1", "k2"] as KeyId[] as [KeyId, KeyId];

describe("the envelope", () => {
  it("returns the sealed content", () => {
    const dek = makeDek();
    const apiKey = makeApiKey();
    const unwrapped = unwrapDek(secrets, wrapDek(kek, dek, ada), ada);
    expect(openApiKey(unwrapped, sealApiKey(dek, apiKey, ada, first), ada, first)).toBe(apiKey);
    expect(openSecret(dek, sealSecret(dek, "hf_x", ada, "deployment|d1"), ada, "deployment|d1")).toBe("hf_x");
  });

  it("opens with any available key-encryption key, including one that a rotation creates meanwhile", () => {
    const dek = makeDek();
    const next = { version: 2, bytes: randomBytes(32) };
    const [old, rewrapped] = [wrapDek(kek, dek, ada), wrapDek(next, dek, ada)];
    const both = { ...secrets, keks: [next, kek] };
    expect([old, rewrapped].map((wrapped) => unwrapDek(both, wrapped, ada).equals(dek))).toEqual([true, true]);
    expect(() => unwrapDek(secrets, rewrapped, ada)).toThrow();
    let looks = 0;
    const growing = {
      pepper: secrets.pepper,
      get keks() {
        return looks > 0 ? both.keks : [kek];
      },
      reread: () => ++looks === 1,
    };
    expect(unwrapDek(growing, rewrapped, ada).equals(dek)).toBe(true);
    expect(() => unwrapDek(growing, wrapDek({ ...kek, version: 3 }, dek, ada), ada)).toThrow();
    expect(looks).toBe(2);
  });

  it("never produces the same bytes twice", () => {
    const dek = makeDek();
    const sealed = new Set(Array.from({ length: 50 }, () => sealApiKey(dek, "secret", ada, first).toString("hex")));
    expect(sealed.size).toBe(50);
  });

  it("does not open for another tenant, another row, another purpose or another version of the key", () => {
    const dek = makeDek();
    const sealed = sealApiKey(dek, "secret", ada, first);
    expect(() => openApiKey(dek, sealed, bob, first)).toThrow();
    expect(() => openApiKey(dek, sealed, ada, second)).toThrow();
    expect(() => openApiKey(makeDek(), sealed, ada, first)).toThrow();
    expect(() => openSecret(dek, sealSecret(dek, "x", ada, "deployment|d1"), ada, "deployment|d2")).toThrow();
    const wrapped = wrapDek(kek, dek, ada);
    expect(() => unwrapDek(secrets, wrapped, bob)).toThrow();
    expect(() => unwrapDek({ ...secrets, keks: [{ ...kek, version: 2 }] }, wrapped, ada)).toThrow();
    expect(() => unwrapDek({ ...secrets, keks: [{ version: 1, bytes: randomBytes(32) }] }, wrapped, ada)).toThrow();
  });

  it("does not open if any byte was changed or the end is missing", () => {
    const dek = makeDek();
    const sealed = sealApiKey(dek, "secret", ada, first);
    for (let i = 0; i < sealed.length; i++) {
      const changed = Buffer.from(sealed);
      changed[i] = (changed[i] as number) ^ 1;
      expect(() => openApiKey(dek, changed, ada, first)).toThrow();
      expect(() => openApiKey(dek, sealed.subarray(0, i), ada, first)).toThrow();
    }
  });

  it("looks up a key only with the pepper", () => {
    const other = { ...secrets, pepper: randomBytes(32) };
    expect(lookupOf(secrets, "k").equals(lookupOf(secrets, "k"))).toBe(true);
    expect(lookupOf(secrets, "k").equals(lookupOf(other, "k"))).toBe(false);
  });
});
