import { expect, it } from "vitest";
import { createSteadyTime } from "../../../proto/steady-time.ts";

function world() {
  const at = { monotonicMs: 5_000, wallMs: 1_000_000 };
  const time = createSteadyTime(
    () => at.monotonicMs,
    () => at.wallMs,
  );
  const pass = (ms: number) => {
    at.monotonicMs += ms;
    at.wallMs += ms;
  };
  return { at, time, pass };
}

it("advances by the time that passed while the wall clock steps an hour each way", () => {
  const { at, time, pass } = world();
  for (const step of [3_600_000, -7_200_000, 3_600_000]) {
    const before = time.nowMs();
    at.wallMs += step;
    pass(10_000);
    expect(time.nowMs() - before).toBe(10_000);
  }
  expect(time.nowMs()).toBe(1_030_000);
});

it("takes the first aim at once, and approaches a later one by at most 1 % without going back", () => {
  const { time, pass } = world();
  time.aim(2_000_000);
  expect(time.nowMs()).toBe(2_000_000);
  time.aim(2_000_000 - 5_000);
  let last = time.nowMs();
  for (let second = 0; second < 600; second += 1) {
    pass(1_000);
    const now = time.nowMs();
    expect(now - last).toBeGreaterThanOrEqual(990);
    expect(now - last).toBeLessThanOrEqual(1_000);
    last = now;
  }
  expect(last).toBe(2_595_000);
  time.aim(last + 2_000);
  pass(100_000);
  expect(time.nowMs() - last).toBe(101_000);
});

it("steps forward after a pause of the monotonic clock once the wall clock agrees with the aim", () => {
  const { at, time, pass } = world();
  time.aim(1_000_000);
  pass(60_000);
  // The machine was paused for five minutes, and its wall clock is not corrected yet.
  time.aim(1_360_000);
  pass(60_000);
  expect(time.nowMs()).toBe(1_120_600);
  at.wallMs += 300_000;
  time.aim(1_420_000);
  expect(time.nowMs()).toBe(1_420_000);
  pass(60_000);
  expect(time.nowMs()).toBe(1_480_000);
});

it.each([
  { of: "a gap of 30 s", aimMs: 1_030_000, wallMs: 1_030_000 },
  { of: "a wall clock 6 s from the aim", aimMs: 3_600_000, wallMs: 3_606_000 },
  { of: "an aim in the past", aimMs: 400_000, wallMs: 400_000 },
])("does not step on $of", ({ aimMs, wallMs }) => {
  const { at, time, pass } = world();
  time.aim(1_000_000);
  at.wallMs = wallMs;
  time.aim(aimMs);
  expect(time.nowMs()).toBe(1_000_000);
  pass(1_000);
  expect(Math.abs(time.nowMs() - 1_001_000)).toBeLessThanOrEqual(10);
});
