// Cost of a resumable stream of 64 chunks beside the same stream without: CPU of the control plane and of PostgreSQL, and latency of
// one caller. Both are served by one installation and take turns in each round.
import type { BenchOptions } from "./figures.ts";
import { type Load, median, quantile, runWholeLoad } from "./load.ts";
import { childrenCpuMs, commandOf, cpuMs, treeOf } from "./process-usage.ts";
import { type Stack, startStack } from "./stack.ts";

const concurrency = 32;
const streams = 300;
const warmUp = 2400;
const callsOfOne = 50;
const chunks = 64;

let number = 0;

function loadOf({ gatewayUrl, apiKey, model }: Stack, isResumable: boolean, requests: number, callers: number): Load {
  const run = process.pid;
  return {
    url: gatewayUrl,
    path: "/v1/chat/completions",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${apiKey}`,
      ...(isResumable ? { "x-stoker-resumable": "true" } : {}),
    },
    ...(isResumable ? { header: () => ["idempotency-key", `bench-${run}-${number++}`] as const } : {}),
    body: JSON.stringify({
      model,
      messages: [{ role: "user", content: "Tell me about the town on the hill, and its harbour." }],
      max_tokens: chunks,
      temperature: 0,
      stream: true,
    }),
    requests,
    concurrency: callers,
  };
}

/** Microseconds of CPU per stream, and milliseconds of one for a single caller. */
interface Sample {
  readonly controlPlane: number;
  readonly database: number;
  readonly p50: number;
}

async function measured(stack: Stack, isResumable: boolean, database: number): Promise<Sample> {
  const { controlPlane } = stack.pids;
  const used = () => [cpuMs(controlPlane), cpuMs(database) + childrenCpuMs(database)];
  const before = used();
  await runWholeLoad(loadOf(stack, isResumable, streams, concurrency));
  const [own = 0, ofDatabase = 0] = used().map((after, i) => ((after - (before[i] as number)) * 1000) / streams);
  const { latenciesMs } = await runWholeLoad(loadOf(stack, isResumable, callsOfOne, 1));
  return { controlPlane: own, database: ofDatabase, p50: quantile(latenciesMs, 0.5) };
}

export async function benchResumable({ rounds, figures }: BenchOptions): Promise<void> {
  const stack = await startStack();
  try {
    const database = treeOf(stack.pids.up).find((pid) => commandOf(pid).startsWith("postgres"));
    if (database === undefined) throw new Error("PostgreSQL of `up` not found");
    const kinds = [false, true];
    for (const isResumable of kinds) await runWholeLoad(loadOf(stack, isResumable, warmUp, concurrency));
    const samples: { readonly plain: Sample; readonly resumable: Sample }[] = [];
    for (let round = 0; round < rounds; round++) {
      // Every second round in the other order: each inherits the garbage of the one before.
      const of = new Map<boolean, Sample>();
      for (const isResumable of round % 2 === 0 ? kinds : kinds.toReversed())
        of.set(isResumable, await measured(stack, isResumable, database));
      samples.push({ plain: of.get(false) as Sample, resumable: of.get(true) as Sample });
    }
    const show = (name: string, unit: string | undefined, each: (plain: Sample, resumable: Sample) => number) => {
      const values = samples.map(({ plain, resumable }) => each(plain, resumable));
      figures.judge({ name, values, ...(unit === undefined ? {} : { unit }) });
      const range = `(${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)})`;
      process.stdout.write(`${name.padEnd(56)} ${median(values).toFixed(2).padStart(8)}   ${range}\n`);
    };
    process.stdout.write(`\nresumable: medians of ${rounds} rounds (min to max); streams of ${chunks} chunks\n`);
    show("control plane CPU, resumable / plain", undefined, (a, b) => b.controlPlane / a.controlPlane);
    show("added control plane CPU of an event", "us", (a, b) => (b.controlPlane - a.controlPlane) / chunks);
    show("added PostgreSQL CPU of an event", "us", (a, b) => (b.database - a.database) / chunks);
    show("added p50 of one caller's stream", "ms", (a, b) => b.p50 - a.p50);
  } finally {
    await stack.stop();
  }
}
