// Regression bound of the router: scenarios of `stoker simulate` against load alone, with a fixed seed.
import { describe, expect, it } from "vitest";
import { judge } from "../../../simulator/report.ts";
import { scenarios } from "../../../simulator/scenarios.ts";
import { type Scenario, simulate } from "../../../simulator/simulate.ts";

const chosen = [
  "32 agents, one system prompt",
  "64 agents, 8 system prompts",
  "64 agents, each its own system prompt",
  "48 agents that name their conversation",
  "agents of 12 accounts",
  "chat, 5 new conversations a second",
  "chat on fast and slow instances",
  "questions about 400 documents",
  "agents, chat and questions",
  "agents, a host is lost",
];
const shorter = (scenario: Scenario): Scenario => ({ ...scenario, seconds: 500 });
const scenarioOf = (name: string) => shorter(scenarios.find((one) => one.name === name) as Scenario);

describe("the router", () => {
  it.each(chosen)("serves no less than by load alone, and agents ten times as early: %s", (name) => {
    const scenario = scenarioOf(name);
    const outcomes = (["stoker", "least-loaded"] as const).map((policy) => simulate(scenario, policy, 1));
    const verdict = judge(scenario, outcomes);
    expect(verdict.misses).toEqual([]);
    expect(outcomes[0]?.tally.turns).toBeGreaterThan(500);
  });

  it.each(["chat, 5 new conversations a second", "64 agents, each its own system prompt"])(
    "is as good as with exact knowledge of every cache, within a few per cent: %s",
    (name) => {
      const [own, exact] = (["stoker", "known-caches"] as const).map((policy) => simulate(scenarioOf(name), policy, 1));
      expect(own?.cachedShare).toBeGreaterThan(0.97 * (exact?.cachedShare as number));
      expect(own?.ttftMs.p90).toBeLessThan(1.1 * (exact?.ttftMs.p90 as number));
    },
  );

  it("repeats a run with the same seed, and no other", () => {
    const figures = (seed: number) => {
      const { tally: _, ...rest } = simulate(scenarioOf("agents, a host is lost"), "stoker", seed);
      return rest;
    };
    expect(figures(3)).toEqual(figures(3));
    expect(figures(3)).not.toEqual(figures(4));
  });
});

it("has 33 scenarios, each with a name of its own", () => {
  expect(new Set(scenarios.map(({ name }) => name)).size).toBe(33);
});
