// Runs the scenarios, or a trace on a fleet, in virtual time. `stoker simulate --help` lists the options.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { type Policy, policies } from "./fleet.ts";
import { type EngineProfile, profiles, profileWords } from "./profile.ts";
import { type Calibration, judge, linesOf } from "./report.ts";
import { scenarios } from "./scenarios.ts";
import { examplePrices, type Outcome, type Prices, type Scenario, simulate } from "./simulate.ts";
import { TraceError } from "./trace.ts";
import { traceScenario } from "./trace-scenario.ts";
import { writeReport } from "./write-report.ts";

class UsageError extends Error {}

const options = {
  scenario: { type: "string" },
  report: { type: "string" },
  calibration: { type: "string" },
  seed: { type: "string", default: "1" },
  trace: { type: "string" },
  instances: { type: "string", default: "8" },
  profile: { type: "string", default: "8b" },
  gateways: { type: "string", default: "1" },
  scale: { type: "string" },
  speed: { type: "string", default: "1" },
  policy: { type: "string", multiple: true },
  price: { type: "string" },
  "gpu-price": { type: "string" },
  json: { type: "boolean" },
} as const;

try {
  await run(process.argv.slice(2));
} catch (error) {
  const code = (error as NodeJS.ErrnoException).code;
  const isOfUser = error instanceof UsageError || error instanceof TraceError || code?.startsWith("ERR_PARSE_ARGS");
  if (!isOfUser && code !== "ENOENT") throw error;
  const message = isOfUser ? (error as Error).message : `File ${(error as NodeJS.ErrnoException).path} not found.`;
  process.stderr.write(`error: ${message}\n`);
  process.exitCode = 2;
}

async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const seed = integer("--seed", values.seed, 0, 2 ** 32 - 1);
  const chosen = policiesOf(values.policy ?? policies);
  const prices = pricesOf(values.price, values["gpu-price"]);
  const print = (outcomes: readonly Outcome[]) => {
    if (!values.json) process.stdout.write(`${linesOf(outcomes)}\n\n`);
    else for (const { tally: _, ...figures } of outcomes) process.stdout.write(`${JSON.stringify(figures)}\n`);
  };
  const outcomesOf = (scenario: Scenario, of: readonly Policy[]) =>
    of.map((policy) => simulate(scenario, policy, seed, prices));

  if (values.trace !== undefined) {
    const [min, max] = (values.scale ?? "").split(":");
    const scenario = await traceScenario({
      file: values.trace,
      profile: profileOf(values.profile),
      count: integer("--instances", values.instances, 1, 10_000),
      gateways: integer("--gateways", values.gateways, 1, 100),
      speed: positive("--speed", values.speed),
      scale:
        values.scale === undefined
          ? undefined
          : { min: integer("--scale", min, 1, 10_000), max: integer("--scale", max, 1, 10_000) },
    });
    print(outcomesOf(scenario, chosen));
    return;
  }
  if (values.report !== undefined && values.scenario !== undefined)
    throw new UsageError("--report needs all scenarios: leave out --scenario.");
  const calibration = calibrationOf(values.calibration);
  const wanted = scenarios.filter(({ name }) => values.scenario === undefined || name.includes(values.scenario));
  if (wanted.length === 0) throw new UsageError(`No scenario contains "${values.scenario}".`);
  const verdicts = [];
  for (const scenario of wanted) {
    const outcomes = outcomesOf(scenario, values.report === undefined ? chosen : policies);
    if (!values.json) process.stdout.write(`${scenario.name}\n`);
    print(outcomes);
    if (values.report !== undefined) verdicts.push(judge(scenario, outcomes));
  }
  if (values.report !== undefined) {
    writeReport(values.report, verdicts, seed, calibration);
  }
}

function profileOf(name: string): EngineProfile {
  if (name in profiles) return profiles[name as keyof typeof profiles];
  if (!name.endsWith(".json"))
    throw new UsageError(`Unknown profile ${name}. Known: ${Object.keys(profiles).join(", ")}.`);
  let fields: Record<string, unknown>;
  try {
    fields = JSON.parse(readFileSync(name, "utf8"));
  } catch (error) {
    throw new UsageError(`${name} is no JSON file: ${(error as Error).message}`);
  }
  for (const [key, value] of Object.entries(fields)) {
    if (!(key in profiles["8b"])) throw new UsageError(`${name}: unknown field ${key}.`);
    const words = profileWords[key];
    if (words) {
      if (!words.includes(String(value))) throw new UsageError(`${name}: ${key} must be one of ${words.join(", ")}.`);
    } else if (key !== "name" && !(typeof value === "number" && value >= 0))
      throw new UsageError(`${name}: ${key} must be a number of at least 0.`);
  }
  return { ...profiles["8b"], name, ...fields };
}

function calibrationOf(file: string | undefined): readonly Calibration[] {
  if (file === undefined) return [];
  let found: unknown;
  try {
    found = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new UsageError(`${file} is no JSON file: ${(error as Error).message}`);
  }
  if (!Array.isArray(found) || !found.every((one) => one?.load && one.real && one.simulated))
    throw new UsageError(`${file} has no measurements: write it with \`npm run bench -- calibrate --json ${file}\`.`);
  return found;
}

function policiesOf(names: readonly string[]): readonly Policy[] {
  const known: readonly string[] = [...policies, "known-caches"];
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new UsageError(`Unknown policy ${unknown}.\nKnown: ${known.join(", ")}.`);
  return names as readonly Policy[];
}

function pricesOf(price: string | undefined, gpuPrice: string | undefined): Prices {
  const usdPerGpuHour = gpuPrice === undefined ? examplePrices.usdPerGpuHour : positive("--gpu-price", gpuPrice);
  if (price === undefined) return { ...examplePrices, usdPerGpuHour };
  const parts = price.split(":");
  if (parts.length !== 3) throw new UsageError("--price has three parts, such as 0.2:0.05:0.6.");
  const [input, cachedInput, output] = parts.map((part) => BigInt(Math.round(positive("--price", part) * 1e9))) as [
    bigint,
    bigint,
    bigint,
  ];
  return { rates: { input, cachedInput, output }, usdPerGpuHour };
}

function integer(option: string, text: string | undefined, min: number, max: number): number {
  const value = Number(text);
  if (text === undefined || text === "" || !Number.isInteger(value) || value < min || value > max)
    throw new UsageError(`${option} must be an integer from ${min} to ${max}.`);
  return value;
}

function positive(option: string, text: string): number {
  const value = Number(text);
  if (text === "" || !Number.isFinite(value) || value <= 0) throw new UsageError(`${option} must be a number above 0.`);
  return value;
}
