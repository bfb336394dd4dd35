import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TokenWindow } from "../../../../control-plane/quotas/token-window.ts";

describe("the window of a minute", () => {
  it("never counts less than was used in the last 60 s, nor anything older than 61 s", () => {
    const uses = fc.array(fc.record({ wait: fc.integer({ min: 0, max: 90_000 }), tokens: fc.nat(10_000) }));
    fc.assert(
      fc.property(uses, fc.integer({ min: 0, max: 100_000 }), (all, rest) => {
        let now = 0;
        const window = new TokenWindow(0);
        const log: { at: number; tokens: number }[] = [];
        for (const { wait, tokens } of all) {
          now += wait;
          window.add(tokens, Math.floor(now / 1000));
          log.push({ at: now, tokens });
        }
        now += rest;
        window.advance(Math.floor(now / 1000));
        const since = (ms: number) =>
          log.filter(({ at }) => at > now - ms).reduce((sum, { tokens }) => sum + tokens, 0);
        expect(window.sum).toBeGreaterThanOrEqual(since(60_000));
        expect(window.sum).toBeLessThanOrEqual(since(61_000));
      }),
    );
  });

  it("gives the time until enough of it is free, to the second", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(500), { minLength: 61, maxLength: 61 }),
        fc.integer({ min: 1, max: 40_000 }),
        (perSecond, limit) => {
          const window = new TokenWindow(0);
          for (const [second, tokens] of perSecond.entries()) window.add(tokens, second);
          window.advance(60);
          const seconds = window.secondsUntilBelow(limit);
          if (seconds > 0) {
            window.advance(60 + seconds - 1);
            expect(window.sum).toBeGreaterThanOrEqual(limit);
          }
          window.advance(60 + seconds);
          expect(window.sum).toBeLessThan(limit);
        },
      ),
    );
  });

  it("is empty when its last use has expired", () => {
    const window = new TokenWindow(5);
    expect(window.secondsUntilEmpty()).toBe(0);
    window.add(7, 10);
    window.advance(40);
    expect(window.secondsUntilEmpty()).toBe(31);
    window.advance(71);
    expect([window.sum, window.secondsUntilEmpty()]).toEqual([0, 0]);
  });
});
