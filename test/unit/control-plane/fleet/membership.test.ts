import { pino } from "pino";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createHostClocks, hostClockLimits } from "../../../../control-plane/fleet/host-clocks.ts";
import { createMembership } from "../../../../control-plane/fleet/membership.ts";
import type { FleetStore } from "../../../../control-plane/fleet/store.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it.each([1, 0.2, 0.05])("reports an outage of the database only while there is one, at clocks of %d", async (scale) => {
  const limits = { leaseMs: hostClockLimits.leaseMs * scale, lostMs: hostClockLimits.lostMs * scale };
  const monotonicMs = () => performance.now();
  let isDown = false;
  const store = {
    seenAt: async () => {
      if (isDown) throw new Error("connect ECONNREFUSED");
      return new Map();
    },
  } as unknown as FleetStore;
  const membership = createMembership({
    store,
    clocks: createHostClocks({ limits, monotonicMs }),
    routing: { sawReport: () => {} },
    figures: { saw: () => {} },
    monotonicMs,
    leaseMs: limits.leaseMs,
    log: pino({ level: "silent" }),
  });
  const ending = new AbortController();
  const running = membership.run(ending.signal);
  const hasReported = async () => {
    let isUnavailable = false;
    for (let i = 0; i < 40; i++) {
      await vi.advanceTimersByTimeAsync(limits.leaseMs / 20);
      isUnavailable ||= membership.isDatabaseUnavailable;
    }
    return isUnavailable;
  };
  expect(await hasReported()).toBe(false);
  isDown = true;
  expect(await hasReported()).toBe(true);
  isDown = false;
  await vi.advanceTimersByTimeAsync(limits.leaseMs / 4);
  expect(await hasReported()).toBe(false);
  ending.abort();
  await running;
});
