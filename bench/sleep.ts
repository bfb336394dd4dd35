// Ten deployments of SmolLM2 that sleep, on a host with the capacity for two awake: the time that a request for a sleeping one waits, by
// phase, from the logs of the agent. Phases lie behind each other, so their sum is the time to the first token.
import { setTimeout as pause } from "node:timers/promises";
import { Random } from "../simulator/random.ts";
import { query } from "../test/e2e/spine/database.ts";
import { demoModel, hasRealModel } from "../test/e2e/spine/model.ts";
import { type Stack, startStack } from "../test/fakes/processes.ts";
import type { BenchOptions, Figures } from "./figures.ts";
import { median, quantile } from "./load.ts";

const deployments = 10;
const awake = 2;
const callers = 2;
const requestsPerRound = 10;
const maxP95Ms = 1_000;
/** Maximum evictions of one model, in multiples of the median. */
const maxEvictions = 3;

interface Wake {
  readonly model: number;
  /** Until the host has the desired state with the caller's time. */
  readonly decision: number;
  /** Until others have given up the memory. */
  readonly memory: number;
  /** Until the model server has loaded the weights. */
  readonly load: number;
  /** Report to the control plane, route, transport and first token. */
  readonly answer: number;
}

const phases = ["decision", "memory", "load", "answer"] as const;
const totalOf = (wake: Wake) => phases.reduce((sum, phase) => sum + wake[phase], 0);

interface Logged {
  readonly time: number;
  readonly msg: string;
  readonly instance?: string;
  readonly wakeMs?: number;
  readonly step?: string;
}

const logOf = (stack: Stack): Logged[] =>
  (stack.agents[0]?.log() ?? "").split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line)] : []));

async function deploy(stack: Stack): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let n = 0; n < deployments; n++) {
    const { status, body } = await stack.call("POST", "/deploy/llm", {
      model_name: `admin/sleeper-${n}`,
      gpu: "other",
      max_batch_size: 1,
      context_length: 2_048,
      hf: { repo: demoModel },
      settings: { min_instances: 1, max_instances: 1, sleep_after_seconds: 3_600 },
    });
    if (status !== 200) throw new Error(`deployment refused: ${status} ${JSON.stringify(body)}`);
    ids.push(body.deploy_id);
    const endMs = performance.now() + 180_000;
    for (;;) {
      const found = (await stack.call("GET", `/deploy/${body.deploy_id}`)).body;
      if (found.status === "deployed") break;
      if (found.status === "failed" || performance.now() > endMs)
        throw new Error(`the deployment is ${found.status}: ${found.fail_reason}`);
      await pause(200);
    }
  }
  return ids;
}

interface Answer {
  readonly model: number;
  readonly sentMs: number;
  readonly firstMs: number;
  readonly failure: string;
}

async function ask(stack: Stack, model: number): Promise<Answer> {
  const sentMs = Date.now();
  try {
    const answer = await fetch(`${stack.url}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: `admin/sleeper-${model}`,
        prompt: "hi",
        max_tokens: 4,
        temperature: 0,
        stream: true,
      }),
    });
    let firstMs = 0;
    let text = "";
    for await (const chunk of answer.body ?? []) {
      text += Buffer.from(chunk).toString();
      if (firstMs === 0 && text.includes("data: ")) firstMs = Date.now();
    }
    const isWhole = answer.status === 200 && text.includes("[DONE]");
    return { model, sentMs, firstMs, failure: isWhole ? "" : `${answer.status} ${text.slice(-300)}` };
  } catch (error) {
    return { model, sentMs, firstMs: 0, failure: String(error) };
  }
}

/** The phases of a request that woke its instance; undefined if that was awake. */
function wakeOf(
  { model, sentMs, firstMs }: Answer,
  instance: string | undefined,
  log: readonly Logged[],
): Wake | undefined {
  const isWithin = ({ time }: Logged) => time >= sentMs && time <= firstMs;
  const ready = log.findLast((line) => isWithin(line) && line.msg === "instance awake" && line.instance === instance);
  if (!ready) return undefined;
  const beganMs = ready.time - (ready.wakeMs ?? 0);
  const told = log.find((line) => line.time >= sentMs && line.msg === "desired state")?.time ?? beganMs;
  const toldMs = Math.min(told, beganMs);
  return {
    model,
    decision: toldMs - sentMs,
    memory: beganMs - toldMs,
    load: ready.time - beganMs,
    answer: firstMs - ready.time,
  };
}

export async function benchSleep({ rounds, figures }: BenchOptions): Promise<void> {
  if (!hasRealModel("the time to wake a small model")) return;
  const stack = await startStack({ agentEnv: { STOKER_GPUS: String(awake) } });
  try {
    const ids = await deploy(stack);
    const rows = await query<{ deploy_id: string; instance_id: string }>(
      stack.databaseUrl,
      "select deploy_id, instance_id from instance where tombstoned_at is null",
    );
    const instanceOf = (model: number) => rows.find((row) => row.deploy_id === ids[model])?.instance_id;
    const settledMs = Date.now();
    const answers: Answer[] = [];
    const { next } = new Random(1);
    let left = rounds * requestsPerRound;
    const call = async () => {
      while (left-- > 0) answers.push(await ask(stack, Math.floor(next() * deployments)));
    };
    await Promise.all(Array.from({ length: callers }, call));
    const log = logOf(stack).filter(({ time }) => time >= settledMs);
    const wakes = answers.flatMap((answer) => wakeOf(answer, instanceOf(answer.model), log) ?? []);
    const evictions = ids.map((_, model) => {
      const id = instanceOf(model);
      return log.filter((line) => line.msg === "instance asleep" && line.instance === id).length;
    });
    print({ answers, wakes, evictions }, figures);
  } finally {
    await stack.stop();
  }
}

interface Seen {
  readonly answers: readonly Answer[];
  readonly wakes: readonly Wake[];
  readonly evictions: readonly number[];
}

function print({ answers, wakes, evictions }: Seen, figures: Figures): void {
  const lost = answers.filter(({ failure }) => failure !== "");
  const out = [
    `\nsleep: ${deployments} deployments of SmolLM2-135M, capacity for ${awake} awake, ${callers} callers, ${answers.length} requests, ${wakes.length} wakes`,
    `${"ms".padEnd(34)} ${"p50".padStart(8)} ${"p95".padStart(8)}`,
  ];
  const line = (label: string, values: readonly number[]) =>
    `${label.padEnd(34)} ${quantile(values, 0.5).toFixed(0).padStart(8)} ${quantile(values, 0.95).toFixed(0).padStart(8)}`;
  const labels = {
    decision: "request -> host has the order",
    memory: "others give up the memory",
    load: "load of the weights",
    answer: "report, route, first token",
  };
  for (const phase of phases)
    out.push(
      line(
        labels[phase],
        wakes.map((wake) => wake[phase]),
      ),
    );
  const totals = wakes.map(totalOf);
  const p95 = { name: "request to first token, p95", unit: "ms", values: totals, value: quantile(totals, 0.95) };
  out.push(`${line("request -> first token", totals)}   ${figures.judge({ ...p95, atMost: maxP95Ms })}`);
  const most = (name: string, value: number, atMost: number) => figures.judge({ name, values: [value], atMost });
  out.push(
    `lost requests ${lost.length}   ${most("lost requests", lost.length, 0)}${lost[0] ? `   one of them: ${lost[0].failure}` : ""}`,
  );
  const ratio = Math.max(...evictions) / Math.max(1, median(evictions));
  out.push(
    `evictions per model ${evictions.join(" ")}; most / median ${ratio.toFixed(2)}   ${most("evictions, most / median", ratio, maxEvictions)}`,
  );
  process.stdout.write(`${out.join("\n")}\n`);
}
