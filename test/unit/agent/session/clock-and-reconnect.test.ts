import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createControlClock } from "../../../../agent/session/control-clock.ts";
import { reconnectDelayMs } from "../../../../agent/session/reconnect.ts";

describe("the control plane's clock", () => {
  it("is this host's own until a control plane was heard", () => {
    const clock = createControlClock(
      () => 5,
      () => 1_000,
    );
    expect(clock.nowMs()).toBe(1_000);
  });

  it("goes on by the monotonic clock, whatever the wall clock does", () => {
    let monotonicMs = 100;
    let wallMs = 1_000_000;
    const clock = createControlClock(
      () => monotonicMs,
      () => wallMs,
    );
    clock.heard(2_000_000, 90, 110);
    monotonicMs = 1_110;
    wallMs -= 3_600_000;
    expect(clock.nowMs()).toBe(2_000_000 + 10 + 1_000);
  });

  it("believes the quickest of its last answers", () => {
    const clock = createControlClock(
      () => 10_000,
      () => 0,
    );
    clock.heard(50_000, 9_990, 10_000);
    clock.heard(70_000, 0, 10_000);
    expect(clock.nowMs()).toBe(50_005);
  });
});

describe("coming back to a control plane", () => {
  it("waits between nothing and 1 s doubled per failure, never more than 30 s", () => {
    fc.assert(
      fc.property(fc.nat(1_000), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (failures, random) => {
        const delayMs = reconnectDelayMs(failures, random);
        expect(delayMs).toBeGreaterThanOrEqual(0);
        expect(delayMs).toBeLessThanOrEqual(Math.min(30_000, 1_000 * 2 ** Math.min(failures, 10)));
      }),
    );
  });
});
