// P6: agents that lost the same control plane together come back spread out. 200 of them on one simulated clock, each with the
// session's own back-off, against a control plane that is away for a while; nothing waits.
import { expect, it } from "vitest";
import { reconnectDelayMs } from "../../../../agent/session/reconnect.ts";

const agents = 200;

/** Park and Miller's. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** When each attempt of each agent falls, in ms after the loss, up to the first that finds the control plane back. */
function attempts(awayMs: number, seed: number): { readonly all: readonly number[]; readonly back: readonly number[] } {
  const random = randomOf(seed);
  const all: number[] = [];
  const back = Array.from({ length: agents }, () => {
    // The session that was lost had been welcomed.
    let failures = 0;
    let atMs = reconnectDelayMs(failures, random());
    for (all.push(atMs); atMs < awayMs; all.push(atMs)) {
      failures += 1;
      atMs += reconnectDelayMs(failures, random());
    }
    return atMs;
  });
  return { all, back };
}

const fullestSecond = (times: readonly number[]): number =>
  Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 1_000).length));

it.each([1, 2, 3, 4, 5].flatMap((seed) => [15_000, 60_000, 120_000].map((awayMs) => [awayMs, seed] as const)))(
  "200 agents whose control plane was away for %i ms (seed %i): none of its seconds sees more than 15 %% of them, all are back in a minute",
  (awayMs, seed) => {
    const { back } = attempts(awayMs, seed);
    expect(fullestSecond(back)).toBeLessThanOrEqual(0.15 * agents);
    expect(Math.max(...back) - awayMs).toBeLessThan(60_000);
  },
);

it("a short absence spreads them over the first second instead of its first moment", () => {
  const { back } = attempts(0, 7);
  const tenth = Array.from({ length: 10 }, (_, n) => back.filter((at) => at >= n * 100 && at < (n + 1) * 100).length);
  expect(Math.max(...tenth)).toBeLessThanOrEqual(0.2 * agents);
});

it("the pause doubles from one second, is never longer than thirty, and may be any part of it", () => {
  expect([0, 1, 2, 3, 4, 5, 9, 1_000].map((failures) => reconnectDelayMs(failures, 1))).toEqual([
    1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000,
  ]);
  expect(reconnectDelayMs(5, 0)).toBe(0);
});
