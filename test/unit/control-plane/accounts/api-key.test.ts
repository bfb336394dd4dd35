import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fragmentOf, looksLikeApiKey, makeApiKey } from "../../../../control-plane/accounts/api-key.ts";

describe("API keys", () => {
  it("have one format for any random bytes, and are recognised", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const key = makeApiKey(Buffer.from(bytes));
        expect(key).toMatch(/^stk_[0-9A-Za-z]{49}$/);
        expect(looksLikeApiKey(key)).toBe(true);
        expect(fragmentOf(key)).toBe(key.slice(48));
      }),
    );
  });

  it("differ for different bytes", () => {
    const first = Buffer.alloc(32);
    const last = Buffer.alloc(32);
    last[31] = 1;
    expect(makeApiKey(first)).not.toBe(makeApiKey(last));
  });

  it("with one changed character are refused without a query", () => {
    const key = makeApiKey();
    for (let i = 0; i < key.length; i++) {
      const changed = key.slice(0, i) + (key[i] === "x" ? "y" : "x") + key.slice(i + 1);
      expect(looksLikeApiKey(changed)).toBe(false);
    }
  });

  it.each(["", "stk_", "sk-123", `stk_${"0".repeat(49)}x`, "ключ"])("do not look like %j", (text) => {
    expect(looksLikeApiKey(text)).toBe(false);
  });
});
