// Outcomes as tables.
import type { Policy } from "./fleet.ts";
import type { Outcome, Scenario } from "./simulate.ts";

export const policyNames: Readonly<Record<Policy, string>> = {
  stoker: "Stoker",
  "least-loaded": "least loaded",
  "prefix-hash": "prefix hash",
  "known-caches": "known caches",
};

export const ms = (value: number): string =>
  value >= 10_000 ? `${(value / 1000).toFixed(1)} s` : `${value.toFixed(0)} ms`;
const percent = (value: number): string => `${(100 * value).toFixed(1)} %`;

/** `title` stands in the head of a table, `line` alone in a line; without it the title does. */
interface Figure {
  readonly title: string;
  readonly line?: string;
  readonly render: (outcome: Outcome) => string;
}

const columns: readonly Figure[] = [
  { title: "Router", render: ({ policy }) => policyNames[policy] },
  { title: "Requests/s", render: ({ turnsPerSecond }) => turnsPerSecond.toFixed(2) },
  { title: "First token p50", render: ({ ttftMs }) => ms(ttftMs.p50) },
  { title: "p90", line: "First token p90", render: ({ ttftMs }) => ms(ttftMs.p90) },
  { title: "p99", line: "First token p99", render: ({ ttftMs }) => ms(ttftMs.p99) },
  { title: "Per token p50", render: ({ tokenMs }) => ms(tokenMs.p50) },
  { title: "p99", line: "Per token p99", render: ({ tokenMs }) => ms(tokenMs.p99) },
  { title: "Cached", render: ({ cachedShare }) => percent(cachedShare) },
  { title: "Refused", render: ({ refused }) => String(refused) },
  { title: "GPU hours", render: ({ gpuHours }) => gpuHours.toFixed(2) },
  {
    title: "USD per hour of GPU",
    render: ({ revenueUsd, gpuHours }) => (gpuHours === 0 ? "-" : (revenueUsd / gpuHours).toFixed(2)),
  },
];

/** A Markdown table with columns of equal width; the first row is its head. */
export function markdown(rows: readonly (readonly string[])[]): string {
  const [head = [], ...rest] = rows;
  const widths = head.map((_, at) => Math.max(3, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rest.map(line)].join("\n");
}

export const tableOf = (outcomes: readonly Outcome[]): string =>
  markdown([
    columns.map(({ title }) => title),
    ...outcomes.map((outcome) => columns.map(({ render }) => render(outcome))),
  ]);

/** A line for each figure, so that a terminal of 80 columns has room for all policies. */
export function linesOf(outcomes: readonly Outcome[]): string {
  const rows = columns.map(({ title, line: name = title, render }) => [name, ...outcomes.map(render)]);
  const widths = [...outcomes, undefined].map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const line = (row: readonly string[]) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ");
  return rows.map((row) => line(row).trimEnd()).join("\n");
}

export interface Verdict {
  readonly scenario: Scenario;
  readonly outcomes: readonly Outcome[];
  /** Stoker's over least loaded's: above 1 is better. */
  readonly turns: number;
  readonly ttftP90: number;
  readonly misses: readonly string[];
}

/** Random draws differ between policies where requests arrive at a rate: below this a difference is none. */
const noise = 0.005;

/** The goals of issue 19: never below least loaded, and in scenarios of agents ten times as fast with 90 % cached. */
export function judge(scenario: Scenario, outcomes: readonly Outcome[]): Verdict {
  const of = (policy: Policy) => outcomes.find((one) => one.policy === policy) as Outcome;
  const [own, least] = [of("stoker"), of("least-loaded")];
  const turns = own.turnsPerSecond / least.turnsPerSecond;
  const ttftP90 = least.ttftMs.p90 / own.ttftMs.p90;
  const misses: string[] = [];
  if (turns < 1 - noise) misses.push("fewer requests per second than least loaded");
  if (ttftP90 < 1 - noise) misses.push("a later first token (p90) than least loaded");
  if (scenario.kind === "agents") {
    if (own.cachedShare < 0.9) misses.push("less than 90 % cached");
    if (ttftP90 < 10) misses.push(`first token (p90) only ${ttftP90.toFixed(1)} times as fast`);
  }
  return { scenario, outcomes, turns, ttftP90, misses };
}

/** `sections`: more parts, between the summary and the tables of the scenarios. */
export function reportOf(verdicts: readonly Verdict[], sections: readonly string[]): string {
  const summary = verdicts.map(({ scenario, outcomes, turns, ttftP90, misses }) => {
    const own = outcomes.find(({ policy }) => policy === "stoker") as Outcome;
    return [
      scenario.name,
      turns.toFixed(2),
      ttftP90.toFixed(1),
      percent(own.cachedShare),
      misses.length === 0 ? "met" : `**${misses.join("; ")}**`,
    ];
  });
  const met = verdicts.filter(({ misses }) => misses.length === 0).length;
  return `# Simulation

Written by \`npm run bench -- simulate --report docs/SIMULATION.md --calibration FILE\`; do not edit. The operations page \`simulate\` explains the figures.

Goals: in each scenario at least as many requests per second as by load alone, and no later first token (p90); in scenarios of agents at
least 90 % of prompt tokens cached and the first token ten times as early. ${met} of ${verdicts.length} scenarios meet them.

${markdown([["Scenario", "Requests/s against least loaded", "First token (p90), times as early", "Cached", "Goals"], ...summary])}

${sections.join("\n\n")}

${verdicts.map(({ scenario, outcomes }) => `## ${scenario.name[0]?.toUpperCase()}${scenario.name.slice(1)}\n\n${tableOf(outcomes)}`).join("\n\n")}
`;
}

export interface CalibrationFigures {
  readonly requestsPerSecond: number;
  readonly ttftP50Ms: number;
  readonly ttftP90Ms: number;
  readonly tokenP50Ms: number;
  readonly cachedShare: number;
}

/** A load on an engine, and its trace replayed with the engine's profile, in one round of measurements. */
export interface Calibration {
  readonly load: string;
  readonly real: CalibrationFigures;
  readonly simulated: CalibrationFigures;
}

const figureNames: readonly (readonly [keyof CalibrationFigures, string, (value: number) => string])[] = [
  ["requestsPerSecond", "Requests/s", (value) => value.toFixed(2)],
  ["ttftP50Ms", "First token p50", ms],
  ["ttftP90Ms", "First token p90", ms],
  ["tokenP50Ms", "Per token p50", ms],
  ["cachedShare", "Cached", percent],
];

const middle = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

/** Medians over the rounds; ratios are of figures of the same round. */
export function calibrationTable(rounds: readonly Calibration[]): string {
  const rows: string[][] = [["Load", "Figure", "Engine", "Simulated", "Ratio"]];
  for (const load of new Set(rounds.map((round) => round.load))) {
    const own = rounds.filter((round) => round.load === load);
    for (const [key, name, render] of figureNames) {
      const ratio = middle(
        own.map(({ real, simulated }) => (real[key] === simulated[key] ? 1 : simulated[key] / real[key])),
      );
      rows.push([
        load,
        name,
        render(middle(own.map(({ real }) => real[key]))),
        render(middle(own.map(({ simulated }) => simulated[key]))),
        ratio.toFixed(2),
      ]);
    }
  }
  return markdown(rows);
}
