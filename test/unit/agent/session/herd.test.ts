// P6 on paper: 200 agents lose their control plane at the same moment, and each comes back by its own dice and by what the
// control plane had told it of the size of the fleet. No clock runs: the times are computed as the session computes them.
import { expect, it } from "vitest";
import { reconnectDelayMs } from "../../../../agent/session/turns.ts";
import { reconnectSpreadMs } from "../../../../control-plane/fleet/membership.ts";

/** Park and Miller's. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** When each agent finds the control plane back, in ms after the loss. */
function back(awayMs: number, seed: number, agents = 200): readonly number[] {
  const random = randomOf(seed);
  // Neighbouring seeds begin alike.
  for (let n = 0; n < 10; n += 1) random();
  const spreadMs = reconnectSpreadMs(agents);
  return Array.from({ length: agents }, () => {
    let atMs = 0;
    // The session that was lost had been welcomed.
    for (let failures = 0; failures === 0 || atMs < awayMs; failures += 1)
      atMs += reconnectDelayMs(failures, random(), spreadMs);
    return atMs;
  });
}

const fullestSecond = (times: readonly number[]): number =>
  Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 1_000).length));

const absences = [0, 1_000, 4_000, 15_000, 60_000, 120_000];
const seeds = Array.from({ length: 20 }, (_, n) => 1_000 + 7_919 * n);

it.each(absences)(
  "reconnects at most 15 percent of 200 agents in one second, all within a minute, after %i ms without a control plane (20 seeds)",
  (awayMs) => {
    const runs = seeds.map((seed) => back(awayMs, seed));
    for (const times of runs) {
      expect(fullestSecond(times)).toBeLessThanOrEqual(0.15 * 200);
      expect(Math.max(...times) - awayMs).toBeLessThan(60_000);
    }
  },
);

it.each([60_000, 120_000, 3_600_000])(
  "reconnects few hosts within 10 s, 33 of them within 25 s, in time to send their spool within thirty, after %i ms without a control plane",
  (awayMs) => {
    for (const [agents, limitMs] of [
      [13, 10_000],
      [33, 25_000],
    ] as const) {
      const late = seeds.map((seed) => Math.max(...back(awayMs, seed, agents)) - awayMs);
      expect(Math.max(...late)).toBeLessThan(limitMs);
      // They do come by dice, not all at once.
      expect(Math.max(...late)).toBeGreaterThan(limitMs / 2);
    }
  },
);

it("reconnects a few hosts within a second, and delays no fleet's first attempt beyond most of a lease", () => {
  expect([0, 1, 10].map(reconnectSpreadMs)).toEqual([1_000, 1_000, 1_000]);
  expect(reconnectSpreadMs(100)).toBe(7_500);
  expect(reconnectSpreadMs(100_000)).toBe(15_000);
});

it("doubles the pause from the first window to at most thirty seconds, and chooses any part of it", () => {
  expect([0, 1, 2, 3, 4, 5, 9, 1_000].map((failures) => reconnectDelayMs(failures, 1))).toEqual([
    1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000,
  ]);
  expect([0, 1, 2].map((failures) => reconnectDelayMs(failures, 1, 12_000))).toEqual([12_000, 24_000, 30_000]);
  expect(reconnectDelayMs(5, 0)).toBe(0);
  // Whoever was never told of a fleet, or of a large one, has all thirty; few hosts ten times their first window.
  expect([4, 9].map((failures) => reconnectDelayMs(failures, 1, 1_000))).toEqual([10_000, 10_000]);
  expect(reconnectDelayMs(9, 1, 3_000)).toBe(30_000);
});
