import { describe, expect, it } from "vitest";
import { countAttempts, networkOf } from "../../../../control-plane/accounts/attempts.ts";
import { TooManyAttempts } from "../../../../control-plane/accounts/errors.ts";

const limit = { most: 3, windowMs: 60_000, mostKeys: 2 };

describe("attempts", () => {
  it("are refused beyond the limit until the window that began with the first one ends", () => {
    let now = 0;
    const attempts = countAttempts(limit, () => now);
    for (const at of [0, 10_000, 50_000]) {
      now = at;
      attempts.take("a");
    }
    const refused = () => {
      try {
        attempts.take("a");
        return undefined;
      } catch (error) {
        return error as TooManyAttempts;
      }
    };
    expect(refused()).toBeInstanceOf(TooManyAttempts);
    expect(refused()?.retryAfterSeconds).toBe(10);
    now = 60_000;
    expect(refused()).toBeUndefined();
  });

  it("are counted per key, and forgiven", () => {
    const attempts = countAttempts(limit, () => 0);
    for (let i = 0; i < 3; i++) attempts.take("a");
    attempts.take("b");
    expect(() => attempts.take("a")).toThrow(TooManyAttempts);
    attempts.forgive("a");
    attempts.take("a");
  });

  it("take a bounded memory, at the cost of the oldest window", () => {
    const attempts = countAttempts(limit, () => 0);
    for (let i = 0; i < 3; i++) attempts.take("a");
    attempts.take("b");
    attempts.take("c");
    attempts.take("a");
  });
});

describe("a client's network", () => {
  it.each([
    ["192.0.2.1", "192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
    ["2001:db8:1:2::9", "2001:db8:1:2"],
    ["2001:db8::1", "2001:db8:0:0"],
    ["::1", "0:0:0:0"],
    ["fe80::1%eth0", "fe80:0:0:0"],
    ["::ffff:192.0.2.1", "::ffff:192.0.2.1"],
  ])("of %s is %s", (ip, network) => expect(networkOf(ip)).toBe(network));
});
