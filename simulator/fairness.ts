// What one tenant costs the others.
import { tierRank } from "../proto/service-tier.ts";
import { Histogram } from "./histogram.ts";
import { profiles } from "./profile.ts";
import type { Outcome, Scenario } from "./simulate.ts";
import { backlog, later, singles, type World } from "./workload.ts";

const shape = { promptTokens: 800, outputTokens: 150 };
const perSecond = 0.1;

export interface TenantsOptions {
  readonly instances: number;
  /** Requests of the account `flood`, times those of each of ten others; 0: none. */
  readonly times: number;
  /** Parts of the run after which a host is lost. */
  readonly losses?: readonly number[];
  readonly seconds: number;
}

/** Ten accounts with few requests, and `flood`, through 4 gateways. Equal seeds send equal requests of the ten. */
export function tenants({ instances, times, losses = [], seconds }: TenantsOptions): Scenario {
  const start = (world: World) => {
    for (let i = 0; i < 10; i++) singles(world, { ...shape, account: `account-${i}` }, () => perSecond);
    if (times > 0) singles(world, { ...shape, account: "flood" }, () => times * perSecond);
    for (const part of losses) later(world, part * world.endMs, () => world.fleet.lose());
  };
  return {
    name: "tenants",
    kind: "tenants",
    instances: Array(instances).fill(profiles["8b"]),
    gateways: 4,
    seconds,
    warmUpSeconds: seconds / 5,
    start,
  };
}

/** Two instances with more of each service tier than they serve of all, each tier from an account of its name. */
export const tiers: Scenario = {
  name: "service tiers",
  kind: "tenants",
  instances: Array(2).fill(profiles["8b"]),
  seconds: 300,
  warmUpSeconds: 60,
  start: (world) => {
    for (const [account, rate] of [
      ["priority", 4],
      ["default", 8],
      ["flex", 8],
    ] as const)
      singles(world, { ...shape, account, tier: tierRank[account] }, () => rate);
    backlog(world, { ...shape, account: "batch", tier: tierRank.batch }, 100);
  },
};

/** First token (ms) of all accounts except `account`, over several runs. */
export function ttftOfOthers(outcomes: readonly Outcome[], account: string): Histogram {
  const all = new Histogram();
  for (const { tally } of outcomes)
    for (const [name, own] of tally.accounts) if (name !== account) all.merge(own.ttftMs);
  return all;
}

/** Jain's index of the values: 1 if all are equal, 1/n if one has everything. */
export function jain(values: readonly number[]): number {
  let sum = 0;
  let squares = 0;
  for (const value of values) {
    sum += value;
    squares += value * value;
  }
  return squares === 0 ? 1 : (sum * sum) / (values.length * squares);
}

/** Tokens served by account, in the order in which accounts were first served. Prompt tokens from caches do not count. */
export const tokensByAccount = ({ tally }: Outcome): readonly number[] =>
  [...tally.accounts.values()].map(({ tokens }) => tokens);
