import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createControlClock } from "../../../../agent/session/control-clock.ts";
import { reconnectDelayMs } from "../../../../agent/session/turns.ts";

describe("the control plane's clock", () => {
  it("is this host's own until a control plane has replied", () => {
    const clock = createControlClock(
      () => 5,
      () => 1_000,
    );
    expect(clock.nowMs()).toBe(1_000);
  });

  it("advances with the monotonic clock, whatever the wall clock does", () => {
    let monotonicMs = 100;
    let wallMs = 1_000_000;
    const clock = createControlClock(
      () => monotonicMs,
      () => wallMs,
    );
    clock.addSample(2_000_000, 90, 110);
    monotonicMs = 1_110;
    wallMs -= 3_600_000;
    expect(clock.nowMs()).toBe(2_000_000 + 10 + 1_000);
  });

  it("uses the reply with the shortest round trip", () => {
    const clock = createControlClock(
      () => 10_000,
      () => 0,
    );
    clock.addSample(50_000, 9_990, 10_000);
    clock.addSample(46_000, 0, 10_000);
    expect(clock.nowMs()).toBe(50_005);
  });
});

describe("a stepped clock", () => {
  it.each([3_600_000, -3_600_000])(
    "is followed at the control plane's first reply, even a slow one (%i ms)",
    (step) => {
      const clock = createControlClock(
        () => 100_000,
        () => 0,
      );
      for (let n = 0; n < 8; n += 1) clock.addSample(1_000_000, 99_999, 100_000);
      clock.addSample(1_000_000 + step, 98_000, 100_000);
      expect(clock.nowMs()).toBe(1_001_000 + step);
      clock.addSample(1_000_000 + step, 99_998, 100_000);
      expect(clock.nowMs()).toBe(1_000_001 + step);
    },
  );
});

describe("coming back to a control plane", () => {
  it("waits between 0 and 1 s doubled per failure, at most 30 s", () => {
    fc.assert(
      fc.property(fc.nat(1_000), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (failures, random) => {
        const delayMs = reconnectDelayMs(failures, random);
        expect(delayMs).toBeGreaterThanOrEqual(0);
        expect(delayMs).toBeLessThanOrEqual(Math.min(30_000, 1_000 * 2 ** Math.min(failures, 10)));
      }),
    );
  });
});
