import { describe, expect, it } from "vitest";
import type { Credential } from "../../../../control-plane/accounts/known-credentials.ts";
import { KnownCredentials } from "../../../../control-plane/accounts/known-credentials.ts";

const maxEntries = 10_000;

const credentialOf = (key: string): Credential =>
  ({ caller: { key, expiresAtMs: null }, mayComeFrom: undefined, wasUsed: false }) as unknown as Credential;

describe("known credentials", () => {
  it("removes the credential unused for longest, and keeps an older one that was used", () => {
    let nowMs = 0;
    const known = new KnownCredentials(
      () => nowMs,
      () => nowMs,
    );
    known.store("used", credentialOf("used"));
    known.store("unused", credentialOf("unused"));
    nowMs += 1_000;
    expect(known.get("used")?.caller.key).toBe("used");
    for (let i = 2; i <= maxEntries; i++) known.store(`other-${i}`, credentialOf(`other-${i}`));
    expect(known.get("used")?.caller.key).toBe("used");
    expect(known.get("unused")).toBeUndefined();
  });
});
