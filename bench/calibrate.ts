// Measures an engine's profile for the simulator, and whether the simulator then agrees with the engine: in each round the profile is
// measured, a load of callers runs on the engine, and its trace is replayed in virtual time. Our runtime is measured in CPU time of
// its process on one thread, so that other processes on the machine do not count.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cpuTextPool } from "../agent/engines/plan-stoker.ts";
import { type EngineProfile, profiles } from "../simulator/profile.ts";
import { Random } from "../simulator/random.ts";
import { type Calibration, calibrationTable } from "../simulator/report.ts";
import { type Outcome, simulate } from "../simulator/simulate.ts";
import { traceScenario } from "../simulator/trace-scenario.ts";
import { type Completed, connectEngine, type EngineClient, textOf } from "./engine-client.ts";
import { quantile } from "./load.ts";
import { say, startServer } from "./runtime-server.ts";

const file =
  process.env["STOKER_TEST_MODEL"] ?? join(import.meta.dirname, "../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
const contextLength = 2048;
const maxBatchSize = 8;
/** As runtime/llama/rounds.ts: duration of a step, by the clock of the machine. */
const wallStepMs = 250;

/** Limits and behaviour of our runtime, which no measurement shows. */
const runtimeShape: EngineProfile = {
  ...profiles["8b"],
  name: "our runtime, SmolLM2-135M on one thread",
  maxBatchSize,
  chunkTokens: 256,
  minChunkTokens: 16,
  prompts: "together",
  cache: "slots",
  cacheTokens: maxBatchSize * contextLength,
};

export async function benchCalibrate({ rounds, rest }: { rounds: number; rest: readonly string[] }): Promise<void> {
  if (!existsSync(file)) {
    say(`NOT TESTED: calibration of the simulator: no weights at ${file}`);
    return;
  }
  const server = await startServer(file, maxBatchSize, {
    STOKER_CONTEXT_LENGTH: String(contextLength),
    STOKER_CPUS: "1",
    ...cpuTextPool,
  });
  const clock = cpuClock(server.pid);
  const client = connectEngine({ origin: server.url, model: "m" }, clock);
  const folder = mkdtempSync(join(tmpdir(), "stoker-calibrate-"));
  const found: Calibration[] = [];
  try {
    await client.complete(textOf(64, new Random(0).next), 4);
    for (let round = 1; round <= rounds; round++) {
      const profile = await measureProfile(client, runtimeShape, new Random(1_000 * round));
      say(`round ${round}: ${profileText(profile)}`);
      for (const load of loads) {
        const startedMs = performance.now();
        const startedCpuMs = clock();
        const run = await runLoad(client, clock, load, new Random(round * 100));
        const cpuMs = clock() - startedCpuMs;
        // The runtime shortens its steps by the clock of the machine, of which it had this share.
        const share = Math.min(1, cpuMs / (performance.now() - startedMs));
        const trace = join(folder, `${round}-${load.name}.jsonl`);
        writeFileSync(trace, run.lines.join("\n"));
        const scenario = await traceScenario({
          file: trace,
          profile: { ...profile, maxStepMs: wallStepMs * share },
          count: 1,
          gateways: 1,
          speed: 1,
          scale: undefined,
        });
        const simulated = simulate(scenario, "stoker", round);
        const one = { load: load.name, real: figuresOf(run.completed, cpuMs), simulated: figuresOfOutcome(simulated) };
        found.push(one);
        say(calibrationTable([one]));
      }
    }
  } finally {
    await client.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  const text = calibrationTable(found);
  say(text);
  const at = rest.indexOf("--json");
  if (at >= 0) writeFileSync(rest[at + 1] as string, JSON.stringify(found));
}

/** Milliseconds of CPU that the process used, all threads together. */
function cpuClock(pid: number): () => number {
  const folder = `/proc/${pid}/task`;
  return () => {
    let ns = 0;
    for (const thread of readdirSync(folder))
      ns += Number(readFileSync(`${folder}/${thread}/schedstat`, "utf8").split(" ")[0]);
    return ns / 1e6;
  };
}

/** Fits durations of steps to streams and prompts of several lengths, by least squares. */
async function measureProfile(client: EngineClient, shape: EngineProfile, random: Random): Promise<EngineProfile> {
  const next = random.next;
  const prompts: [ms: number, tokens: number][] = [];
  for (const tokens of [40, 300, 600, 40]) {
    const { ttftMs, promptTokens, cachedTokens } = await client.complete(textOf(tokens, next), 1);
    prompts.push([ttftMs, promptTokens - cachedTokens]);
  }
  const steps: [ms: number, sequences: number, kiloContext: number][] = [];
  for (const [sequences, context] of [
    [1, 20],
    [2, 20],
    [4, 20],
    [8, 20],
    [4, 400],
  ] as const) {
    const texts = Array.from({ length: sequences }, () => textOf(context, next));
    // Prompts are evaluated before, so that the streams begin together.
    for (const text of texts) if (context > 100) await client.complete(text, 1);
    const output = sequences === 1 ? 24 : 16;
    const done = await Promise.all(texts.map((text) => client.complete(text, output)));
    for (const { tokenMs, promptTokens } of done)
      steps.push([tokenMs, sequences, (sequences * (promptTokens + output / 2)) / 1000]);
  }
  const [stepMs, stepMsPerSequence, stepMsPerKiloContext] = leastSquares(
    steps.map(([ms, sequences, context]) => [ms, [1, sequences, context]]),
  ) as [number, number, number];
  // One token follows the prompt.
  const [requestMs, perToken, perTokenSquared] = leastSquares(
    prompts.map(([ms, tokens]) => [
      ms - stepMs - stepMsPerSequence - (stepMsPerKiloContext * tokens) / 1000,
      [1, tokens, (tokens * tokens) / 2],
    ]),
  ) as [number, number, number];
  return {
    ...shape,
    requestMs: Math.max(0, requestMs),
    prefillTokensPerSecond: 1000 / perToken,
    prefillSlowdownPerKiloContext: Math.max(0, (1000 * perTokenSquared) / perToken),
    stepMs: Math.max(0, stepMs),
    stepMsPerSequence: Math.max(0, stepMsPerSequence),
    stepMsPerKiloContext: Math.max(0, stepMsPerKiloContext),
  };
}

/** Solves for the weights of the terms that come closest to the values, each relative to its value. */
function leastSquares(rows: readonly (readonly [value: number, terms: readonly number[]])[]): number[] {
  const size = rows[0]?.[1].length ?? 0;
  const matrix = Array.from({ length: size }, () => Array<number>(size + 1).fill(0));
  for (const [value, terms] of rows)
    for (let i = 0; i < size; i++) {
      const row = matrix[i] as number[];
      const weight = (terms[i] as number) / (value * value);
      for (let j = 0; j < size; j++) row[j] = (row[j] as number) + weight * (terms[j] as number);
      row[size] = (row[size] as number) + weight * value;
    }
  for (let i = 0; i < size; i++) {
    const pivot = matrix[i] as number[];
    for (let k = 0; k < size; k++) {
      if (k === i) continue;
      const row = matrix[k] as number[];
      const factor = (row[i] as number) / (pivot[i] as number);
      for (let j = i; j <= size; j++) row[j] = (row[j] as number) - factor * (pivot[j] as number);
    }
  }
  return matrix.map((row, i) => (row[size] as number) / (row[i] as number));
}

interface Load {
  readonly name: string;
  readonly callers: number;
  readonly conversations: number;
  readonly turns: number;
  /** Common beginning of all prompts, in tokens. */
  readonly prefixTokens: number;
  readonly firstTokens: number;
  readonly turnTokens: number;
  readonly outputTokens: number;
}

const loads: readonly Load[] = [
  {
    name: "3 agents with a common prefix",
    callers: 3,
    conversations: 1,
    turns: 4,
    prefixTokens: 200,
    firstTokens: 40,
    turnTokens: 40,
    outputTokens: 12,
  },
  {
    name: "4 chats",
    callers: 4,
    conversations: 1,
    turns: 4,
    prefixTokens: 0,
    firstTokens: 40,
    turnTokens: 20,
    outputTokens: 16,
  },
  {
    name: "6 callers with unrelated prompts",
    callers: 6,
    conversations: 2,
    turns: 1,
    prefixTokens: 0,
    firstTokens: 100,
    turnTokens: 0,
    outputTokens: 12,
  },
];

interface Run {
  readonly completed: readonly Completed[];
  readonly lines: readonly string[];
}

/** Callers send their turns without a pause. Times of the trace are of the engine's clock. */
async function runLoad(client: EngineClient, clock: () => number, load: Load, random: Random): Promise<Run> {
  const startedMs = clock();
  const prefix = load.prefixTokens === 0 ? "" : textOf(load.prefixTokens, random.next);
  const completed: Completed[] = [];
  const lines: string[] = [];
  const callers = Array.from({ length: load.callers }, async (_, caller) => {
    const own = new Random(random.next() * 2 ** 32);
    for (let i = 0; i < load.conversations; i++) {
      let text = prefix + textOf(own.size(load.firstTokens, 0.3), own.next);
      for (let turn = 0; turn < load.turns; turn++) {
        const atMs = clock() - startedMs;
        const one = await client.complete(text, own.size(load.outputTokens, 0.3));
        completed.push(one);
        lines.push(
          JSON.stringify({
            timestamp: atMs,
            input_length: one.promptTokens,
            output_length: one.outputTokens,
            caller: `caller ${caller}`,
            conversation: `${caller} ${i}`,
            ...(prefix === "" ? {} : { prefix: "system", prefix_length: load.prefixTokens }),
          }),
        );
        text += one.text + textOf(own.size(Math.max(1, load.turnTokens), 0.3), own.next);
      }
    }
  });
  await Promise.all(callers);
  return { completed, lines };
}

const figuresOf = (completed: readonly Completed[], ms: number): Calibration["real"] => {
  const sum = (of: (one: Completed) => number) => completed.reduce((total, one) => total + of(one), 0);
  return {
    requestsPerSecond: (completed.length * 1000) / ms,
    ttftP50Ms: quantile(
      completed.map(({ ttftMs }) => ttftMs),
      0.5,
    ),
    ttftP90Ms: quantile(
      completed.map(({ ttftMs }) => ttftMs),
      0.9,
    ),
    tokenP50Ms: quantile(
      completed.map(({ tokenMs }) => tokenMs),
      0.5,
    ),
    cachedShare: sum(({ cachedTokens }) => cachedTokens) / sum(({ promptTokens }) => promptTokens),
  };
};

const figuresOfOutcome = ({ turnsPerSecond, ttftMs, tokenMs, cachedShare }: Outcome): Calibration["simulated"] => ({
  requestsPerSecond: turnsPerSecond,
  ttftP50Ms: ttftMs.p50,
  ttftP90Ms: ttftMs.p90,
  tokenP50Ms: tokenMs.p50,
  cachedShare,
});

const profileText = (profile: EngineProfile): string =>
  Object.entries(profile)
    .filter(([key]) => /Ms|prefill/.test(key))
    .map(([key, value]) => `${key} ${Number(value).toPrecision(3)}`)
    .join(", ");
