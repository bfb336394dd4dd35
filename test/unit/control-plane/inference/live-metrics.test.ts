import { expect, it } from "vitest";
import { LiveMetrics } from "../../../../control-plane/inference/live-metrics.ts";
import type { UsageFigures } from "../../../../proto/usage.ts";

const usage = (output: number) => ({ output }) as UsageFigures;

it("says nothing while nothing was measured", () => {
  const live = new LiveMetrics(() => 5_000);
  expect(live.read()).toEqual({ tokensPerSecond: null, timeToFirstToken: null, requestsPerSecond: null });
});

it("averages the last minute and forgets what is older", () => {
  let nowMs = 1_000_000;
  const live = new LiveMetrics(() => nowMs);
  live.note({ startedMs: nowMs - 900, firstByteAtMs: nowMs - 500, usage: usage(30) });
  nowMs += 30_000;
  live.note({ startedMs: nowMs - 900, firstByteAtMs: nowMs - 700, usage: usage(30) });
  expect(live.read()).toEqual({ tokensPerSecond: 1, timeToFirstToken: 0.3, requestsPerSecond: 2 / 60 });
  nowMs += 31_000;
  expect(live.read()).toEqual({ tokensPerSecond: 0.5, timeToFirstToken: 0.2, requestsPerSecond: 1 / 60 });
  nowMs += 60_000;
  expect(live.read().requestsPerSecond).toBeNull();
});

it("counts an answer whose figures did not come as a request without tokens", () => {
  const live = new LiveMetrics(() => 100_000);
  live.note({ startedMs: 0, firstByteAtMs: 0, usage: undefined });
  expect(live.read()).toEqual({ tokensPerSecond: 0, timeToFirstToken: null, requestsPerSecond: 1 / 60 });
});
