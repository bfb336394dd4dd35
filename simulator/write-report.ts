// The report of all scenarios: a page of tables, and plots beside it.
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { tenants, tiers, ttftOfOthers } from "./fairness.ts";
import { type Policy, policies } from "./fleet.ts";
import { type PlotOptions, plot } from "./plot.ts";
import { type Calibration, calibrationTable, markdown, ms, policyNames, reportOf, type Verdict } from "./report.ts";
import { scalingScenarios, withoutRules } from "./scaling-scenarios.ts";
import { floor } from "./scenarios.ts";
import { type Outcome, simulate } from "./simulate.ts";

const agentCounts = ["16 agents", "32 agents, one system prompt", "64 agents", "128 agents"] as const;
const dayName = "chat by day and night, 1 to 8 instances";
const fairnessSeeds = [1, 2];

/** `calibration`: measurements of `npm run bench -- calibrate`; none: no section about them. */
export function writeReport(
  file: string,
  verdicts: readonly Verdict[],
  seed: number,
  calibration: readonly Calibration[],
): void {
  const folder = basename(file, ".md").toLowerCase();
  const path = join(dirname(file), folder);
  mkdirSync(path, { recursive: true });
  const picture = (name: string, options: PlotOptions): string => {
    writeFileSync(join(path, `${name}.svg`), plot(options));
    return `![${options.title}](${folder}/${name}.svg)`;
  };
  const sections = [
    ...agentPlots(verdicts, picture),
    floorText(seed),
    knownCaches(verdicts, seed),
    dayPlot(verdicts, picture),
    rulesTable(seed),
    fairness(picture),
    tiersTable(seed),
    ...(calibration.length === 0 ? [] : [calibrationText(calibration)]),
  ];
  writeFileSync(file, reportOf(verdicts, sections));
}

type Picture = (name: string, options: PlotOptions) => string;

const outcomeOf = (verdicts: readonly Verdict[], name: string, policy: Policy): Outcome =>
  verdicts.find(({ scenario }) => scenario.name === name)?.outcomes.find((one) => one.policy === policy) as Outcome;

function agentPlots(verdicts: readonly Verdict[], picture: Picture): readonly string[] {
  const lines = (of: (outcome: Outcome) => number) =>
    policies.map((policy) => ({
      name: policyNames[policy],
      points: agentCounts.map((name) => [Number.parseInt(name, 10), of(outcomeOf(verdicts, name, policy))] as const),
    }));
  const xTitle = "Agents on 8 instances";
  return [
    `## First token and cache over load

${picture("first-token", {
  title: "First token (p90)",
  xTitle,
  yTitle: "ms",
  isLogarithmic: true,
  lines: lines(({ ttftMs }) => ttftMs.p90),
})}

${picture("cached", {
  title: "Prompt tokens from caches",
  xTitle,
  yTitle: "%",
  lines: lines(({ cachedShare }) => 100 * cachedShare),
})}`,
  ];
}

function floorText(seed: number): string {
  const { ttftMs } = simulate(floor, "stoker", seed);
  return `The best possible first token is that of one agent alone, whose prompt's beginning is always cached: p50 ${ms(ttftMs.p50)}, p90 ${ms(ttftMs.p90)}.
It evaluates only what the turn adds. A router can be at most ${ms(ttftMs.p90)} early, so where least loaded's p90 is below ${ms(10 * ttftMs.p90)}, as with 16 agents, ten times as
early is impossible.`;
}

function knownCaches(verdicts: readonly Verdict[], seed: number): string {
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
  const rows = verdicts
    .filter(({ outcomes }) => (outcomes[0] as Outcome).cachedShare > 0)
    .map(({ scenario }) => {
      const own = outcomeOf(verdicts, scenario.name, "stoker");
      const exact = simulate(scenario, "known-caches", seed);
      const both = (of: (outcome: Outcome) => string) => [of(own), of(exact)];
      return [
        scenario.name,
        ...both(({ turnsPerSecond }) => turnsPerSecond.toFixed(2)),
        ...both(({ ttftMs }) => ms(ttftMs.p90)),
        ...both(({ cachedShare }) => percent(cachedShare)),
      ];
    });
  const head = ["Scenario", "Requests/s", "exact", "First token p90", "exact", "Cached", "exact"];
  return `## What exact knowledge of caches would add

The same router with the exact content of every cache at the moment of each choice: the most that events of an engine's cache could tell.

${markdown([head, ...rows])}`;
}

function dayPlot(verdicts: readonly Verdict[], picture: Picture): string {
  const { samples } = outcomeOf(verdicts, dayName, "stoker").tally;
  const some = samples.filter((_, at) => at % 3 === 0);
  const { maxBatchSize } = (verdicts.find(({ scenario }) => scenario.name === dayName) as Verdict).scenario
    .instances[0] as { maxBatchSize: number };
  return `## Instances over a day

An hour stands for a day.

${picture("day", {
  title: "Instances, and the requests in gates and engines in full batches",
  xTitle: "Minutes",
  yTitle: "Instances",
  lines: [
    { name: "instances", points: some.map(({ atMs, instances }) => [atMs / 60_000, instances]) },
    { name: "requests / batch", points: some.map(({ atMs, load }) => [atMs / 60_000, load / maxBatchSize]) },
  ],
})}`;
}

function rulesTable(seed: number): string {
  const rows = scalingScenarios.flatMap((scenario) =>
    [scenario, withoutRules(scenario)].map((one, at) => {
      const { ttftMs, refused, gpuHours } = simulate(one, "stoker", seed);
      return [
        scenario.name,
        at === 0 ? "yes" : "no",
        ms(ttftMs.p90),
        ms(ttftMs.p99),
        String(refused),
        gpuHours.toFixed(2),
      ];
    }),
  );
  return `## Rules of the autoscaler

${markdown([["Scenario", "With its rule", "First token p90", "p99", "Refused", "GPU hours"], ...rows])}`;
}

function fairness(picture: Picture): string {
  const cases = [
    ["4", 4, []],
    ["8", 8, []],
    ["16", 16, []],
    ["16, 2 lost", 16, [0.4, 0.7]],
  ] as const;
  const found = cases.map(([name, instances, losses]) => {
    const run = (times: number): Found => {
      const scenario = tenants({ instances, times, losses, seconds: 600 });
      const outcomes = fairnessSeeds.map((seed) => simulate(scenario, "stoker", seed));
      return { others: ttftOfOthers(outcomes, "flood"), outcomes };
    };
    const [alone, together] = [run(0), run(1_000)];
    const flood = together.outcomes.reduce(
      (sum, { tally }) => sum + (tally.accounts.get("flood")?.ttftMs.count ?? 0),
      0,
    );
    return {
      name,
      alone: alone.others.quantile(0.99),
      together: together.others.quantile(0.99),
      floodPerSecond: flood / fairnessSeeds.length / 480,
    };
  });
  const lines = (["alone", "together"] as const).map((key) => ({
    name: key === "alone" ? "alone" : "beside the tenant",
    points: found.map((one, at) => [at, one[key]] as const),
  }));
  const rows = found.map(({ name, alone, together, floodPerSecond }) => [
    name,
    ms(alone),
    ms(together),
    (together / alone).toFixed(2),
    floodPerSecond.toFixed(1),
  ]);
  return `## Ten accounts beside one that sends 1,000 times as much

First token (p99) of the ten accounts, through 4 gateways; ${fairnessSeeds.length} runs of 600 s. The ten send the same requests with and without the tenant.

${markdown([["Instances", "Alone", "Beside the tenant", "Ratio", "Tenant's requests/s served"], ...rows])}

${picture("fairness", {
  title: "First token (p99) of ten accounts",
  xTitle: "Instances",
  yTitle: "ms",
  isLogarithmic: true,
  xLabels: found.map(({ name }) => name),
  lines,
})}`;
}

interface Found {
  readonly others: ReturnType<typeof ttftOfOthers>;
  readonly outcomes: readonly Outcome[];
}

function tiersTable(seed: number): string {
  const { tally, refused } = simulate(tiers, "stoker", seed);
  const seconds = tiers.seconds - (tiers.warmUpSeconds ?? 0);
  const rows = [...tally.accounts]
    .sort(([, one], [, other]) => one.ttftMs.quantile(0.5) - other.ttftMs.quantile(0.5))
    .map(([name, { ttftMs }]) => [
      name,
      (ttftMs.count / seconds).toFixed(2),
      ...[0.5, 0.9, 0.99].map((share) => ms(ttftMs.quantile(share))),
    ]);
  return `## Service tiers

Two overloaded instances: 4 requests of the priority tier arrive per second, 8 of default, 8 of flex, and 100 of a batch are always waiting or
running. ${refused} requests were refused.

${markdown([["Tier", "Requests/s served", "First token p50", "p90", "p99"], ...rows])}`;
}

function calibrationText(calibration: readonly Calibration[]): string {
  const rounds = calibration.filter(({ load }) => load === calibration[0]?.load).length;
  return `## Calibration

Our runtime with SmolLM2-135M on one thread, and its trace replayed with the profile measured in the same round: medians of ${rounds} rounds, in CPU time
of the runtime's process (\`npm run bench -- calibrate\`).

${calibrationTable(calibration)}`;
}
