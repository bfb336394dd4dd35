import { describe, expect, it } from "vitest";
import { type AttemptsLimit, countAttempts, networkOf } from "../../../../control-plane/accounts/attempts.ts";
import { TooManyAttempts } from "../../../../control-plane/accounts/errors.ts";

describe("attempts", () => {
  function counting(limit: AttemptsLimit) {
    const clock = { nowMs: 0 };
    const asked: string[] = [];
    const store = {
      countAttempt: async (key: string) => ({ taken: asked.push(key), endsAtMs: 60_000 }),
      returnAttempts: async () => {},
      forgetAttempts: async () => {},
    };
    const attempts = countAttempts("what", limit, { store, unixMs: () => clock.nowMs });
    const refusal = () =>
      attempts.take("a").then(
        () => undefined,
        (error) => error as TooManyAttempts,
      );
    return { clock, asked, refusal };
  }

  it("are refused beyond the limit until the window ends, with the time left", async () => {
    const { clock, refusal } = counting({ max: 3, windowMs: 60_000 });
    for (let i = 0; i < 3; i++) expect(await refusal()).toBeUndefined();
    clock.nowMs = 50_000;
    expect(await refusal()).toBeInstanceOf(TooManyAttempts);
    expect((await refusal())?.retryAfterSeconds).toBe(10);
  });

  it("against a key without resets no longer query the database once refused", async () => {
    const { clock, asked, refusal } = counting({ max: 1, windowMs: 60_000, isFinal: true });
    for (let i = 0; i < 9; i++) await refusal();
    expect(asked).toEqual(["what a", "what a"]);
    clock.nowMs = 60_000;
    await refusal();
    expect(asked).toHaveLength(3);
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
