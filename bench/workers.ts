// CPU time of a request at a control plane of one and two workers, in interleaved rounds. Where cores are free, n workers serve
// n times as many requests divided by the ratio of these times; measured so, because the load, the agent and the engine share the cores here.
import { readFileSync } from "node:fs";
import type { BenchOptions } from "./figures.ts";
import { median, runWholeLoad } from "./load.ts";
import { cpuMs } from "./process-usage.ts";
import { type Stack, startStack } from "./stack.ts";

const counts = [1, 2];
const concurrency = 64;
const requests = 4_000;
/** Requests to each worker before the first round: all processes have compiled what they run. */
const warmUp = 12_000;
/** Requests per second of n workers, in those of one, divided by n. */
const goal = 0.8;

export async function benchWorkers({ rounds, figures }: BenchOptions): Promise<void> {
  const stacks: {
    readonly workers: number;
    readonly stack: Stack;
    readonly times: number[];
    readonly shares: number[];
  }[] = [];
  try {
    for (const workers of counts)
      stacks.push({ workers, stack: await startStack({ STOKER_WORKERS: String(workers) }), times: [], shares: [] });
    for (const { stack, workers } of stacks) await load(stack, warmUp * workers);
    for (let round = 0; round < rounds; round++) {
      for (const { stack, times, shares } of stacks) {
        const before = workersOf(stack).map((pid) => cpuMs(pid));
        await load(stack, requests);
        const used = workersOf(stack).map((pid, i) => cpuMs(pid) - (before[i] ?? 0));
        const sum = used.reduce((all, one) => all + one, 0);
        times.push(sum / requests);
        shares.push(Math.max(...used) / sum);
      }
    }
    const base = median(stacks[0]?.times ?? []);
    const lines = stacks.map(({ workers, times, shares }) => {
      const ratio = median(times) / base;
      const growth = workers / ratio;
      // The busiest worker is full first.
      const bounded = 1 / median(shares) / ratio;
      const verdict =
        workers === 1
          ? ""
          : figures.judge({
              name: `requests of ${workers} workers / of one`,
              values: times.map((time, i) => base / (shares[i] as number) / time),
              value: bounded,
              atLeast: goal * workers,
            });
      return (
        `${workers} workers: ${median(times).toFixed(3)} ms of CPU per request, ${ratio.toFixed(2)} of one; ` +
        `${growth.toFixed(2)} times the requests on as many cores (${bounded.toFixed(2)} until the busiest worker is full)  ${verdict}`
      );
    });
    process.stdout.write(
      `\nworkers: ${rounds} rounds of ${requests} requests, ${concurrency} connections; goal ${goal} of each core\n${lines.join("\n")}\n`,
    );
  } finally {
    for (const { stack } of stacks) await stack.stop();
  }
}

async function load(stack: Stack, count: number): Promise<void> {
  await runWholeLoad({
    url: stack.gatewayUrl,
    path: "/v1/chat/completions",
    headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: stack.model, messages: [{ role: "user", content: "hi" }] }),
    requests: count,
    concurrency,
  });
}

/** The process that serves, or those that it started. */
function workersOf({ pids }: Stack): readonly number[] {
  const children = readFileSync(`/proc/${pids.controlPlane}/task/${pids.controlPlane}/children`, "utf8").trim();
  return children === "" ? [pids.controlPlane] : children.split(" ").map(Number);
}
