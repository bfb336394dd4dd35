import { expect, it } from "vitest";
import { RecentTimes } from "../../../agent/ingress/recent-times.ts";

it("the p95 of recent times covers the last 15 s and at most 512 requests", () => {
  let nowMs = 0;
  const times = new RecentTimes(() => nowMs);
  expect(times.p95()).toBeUndefined();
  for (let n = 1; n <= 100; n++) times.add(n);
  expect(times.p95()).toBe(95);
  nowMs = 15_000;
  expect(times.p95()).toBe(95);
  times.add(7);
  nowMs = 15_001;
  expect(times.p95()).toBe(7);
  nowMs = 40_000;
  expect(times.p95()).toBeUndefined();
  for (let n = 0; n < 1_000; n++) times.add(n < 500 ? 9_999 : 1);
  expect(times.p95()).toBe(1);
});
