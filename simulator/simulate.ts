// One run: a scenario under a policy, with a seed.
import { costOf, type TokenRates, toUsd } from "../proto/money.ts";
import { Fleet, type Policy, type ScaleRules } from "./fleet.ts";
import type { EngineProfile } from "./profile.ts";
import { Random } from "./random.ts";
import { Tally } from "./tally.ts";
import { Timeline } from "./timeline.ts";
import type { World } from "./workload.ts";

export interface Scenario {
  readonly name: string;
  readonly kind: "agents" | "chat" | "documents" | "mixed" | "tenants" | "failure" | "scale";
  readonly instances: readonly EngineProfile[];
  readonly gateways?: number;
  readonly scale?: ScaleRules;
  /** A trace ends earlier, with its last response. */
  readonly seconds: number;
  /** Requests that end within these are not counted. */
  readonly warmUpSeconds?: number;
  /** Starts the clients, and plans what happens to the fleet. */
  readonly start: (world: World) => void;
}

export interface Outcome {
  readonly scenario: string;
  readonly policy: Policy;
  readonly turnsPerSecond: number;
  readonly ttftMs: Quantiles;
  readonly tokenMs: Quantiles;
  /** Share of prompt tokens. */
  readonly cachedShare: number;
  readonly refused: number;
  readonly broken: number;
  readonly gpuHours: number;
  /** Share of the GPU time in which a model ran. */
  readonly busyShare: number;
  readonly revenueUsd: number;
  readonly costUsd: number;
  readonly tally: Tally;
}

export interface Quantiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

export interface Prices {
  readonly rates: TokenRates;
  readonly usdPerGpuHour: number;
}

/** No product's prices: an order of magnitude for 8 billion parameters. */
export const examplePrices: Prices = {
  rates: { input: 200_000_000n, cachedInput: 50_000_000n, output: 600_000_000n },
  usdPerGpuHour: 1.2,
};

export function simulate(scenario: Scenario, policy: Policy, seed = 1, prices: Prices = examplePrices): Outcome {
  const { instances, gateways = 1, seconds, warmUpSeconds = 0, scale } = scenario;
  const timeline = new Timeline();
  const tally = new Tally(warmUpSeconds * 1000);
  const random = new Random(seed);
  // Clients draw from a sequence of their own, so that they are the same under each policy.
  const fleet = new Fleet(
    { policy, gateways, instances, ...(scale ? { scale } : {}) },
    timeline,
    new Random(seed + 1),
    tally,
  );
  let segments = 0;
  const endMs = seconds * 1000;
  scenario.start({ fleet, random, newSegment: () => ++segments, endMs });
  timeline.run(endMs);
  fleet.close();
  return outcomeOf(scenario, policy, tally, prices, timeline.nowMs / 1000 - warmUpSeconds);
}

function outcomeOf(scenario: Scenario, policy: Policy, tally: Tally, prices: Prices, seconds: number): Outcome {
  const { ttftMs, tokenMs, turns, promptTokens, cachedTokens, outputTokens, gpuMs, busyGpuMs } = tally;
  const gpuHours = gpuMs / 3_600_000;
  const quantiles = (of: typeof ttftMs): Quantiles => ({
    p50: of.quantile(0.5),
    p90: of.quantile(0.9),
    p99: of.quantile(0.99),
  });
  const revenue = costOf(
    {
      input: Math.round(promptTokens),
      cachedInput: Math.round(cachedTokens),
      output: Math.round(outputTokens),
    },
    prices.rates,
  );
  return {
    scenario: scenario.name,
    policy,
    turnsPerSecond: turns / seconds,
    ttftMs: quantiles(ttftMs),
    tokenMs: quantiles(tokenMs),
    cachedShare: promptTokens === 0 ? 0 : cachedTokens / promptTokens,
    refused: tally.refused,
    broken: tally.broken,
    gpuHours,
    busyShare: gpuMs === 0 ? 0 : busyGpuMs / gpuMs,
    revenueUsd: toUsd(revenue),
    costUsd: gpuHours * prices.usdPerGpuHour,
    tally,
  };
}
