// Regression bounds of the autoscaler: each rule against the same scenario without it, with fixed seeds.
import { describe, expect, it } from "vitest";
import { scalingScenarios, withoutRules } from "../../../simulator/scaling-scenarios.ts";
import { type Scenario, simulate } from "../../../simulator/simulate.ts";
import { longer } from "../../fakes/nightly.ts";

const [opening, growing, prompts] = scalingScenarios as [Scenario, Scenario, Scenario];
const seeds = longer([1], [1, 2, 3]);

const runs = (scenario: Scenario) => seeds.map((seed) => simulate(scenario, "stoker", seed));
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

describe("the autoscaler", () => {
  it("has the scheduled instances ready when an office opens: no request is refused or waits", () => {
    const [on, off] = [runs(opening), runs(withoutRules(opening))];
    for (const { refused, ttftMs } of on) {
      expect(refused).toBe(0);
      expect(ttftMs.p99).toBeLessThan(1_000);
    }
    for (const { refused, ttftMs } of off) {
      expect(refused).toBeGreaterThan(50);
      expect(ttftMs.p99).toBeGreaterThan(20_000);
    }
  });

  it("halves the p99 of the first token while requests grow, for at most 10 % more GPU time", () => {
    const [on, off] = [runs(growing), runs(withoutRules(growing))];
    const p99 = (of: typeof on) => sum(of.map(({ ttftMs }) => ttftMs.p99));
    const hours = (of: typeof on) => sum(of.map(({ gpuHours }) => gpuHours));
    expect(p99(on)).toBeLessThan(p99(off) / 2);
    expect(hours(on)).toBeLessThan(hours(off) * 1.1);
    for (const { refused } of on) expect(refused).toBe(0);
  });

  it("meets a target of the first token under long prompts, which the load of the slots does not show", () => {
    for (const { ttftMs, refused } of runs(prompts)) {
      expect(refused).toBe(0);
      expect(ttftMs.p90).toBeLessThan(2_000);
    }
    for (const { ttftMs } of runs(withoutRules(prompts))) expect(ttftMs.p90).toBeGreaterThan(20_000);
  });
});
