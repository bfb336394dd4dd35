// What keys, validation, holds, metering, logs and metrics cost on top of passing bytes on: control plane and agent, each
// against a bare Fastify + undici proxy in its place before the same engine stand-in, in interleaved rounds. Ratios are
// medians over rounds.
import { type Load, type LoadResult, median, quantile, runLoad } from "./load.ts";
import { cpuMs, residentMiB } from "./process-usage.ts";
import { type Stack, startStack } from "./stack.ts";

interface Kind {
  readonly name: "request" | "stream";
  readonly requests: number;
  readonly limit: number;
}

const allKinds: readonly Kind[] = [
  { name: "request", requests: 3000, limit: 1.0 },
  { name: "stream", requests: 600, limit: 1.3 },
];
const concurrency = 32;

interface Round {
  readonly controlPlane: number;
  readonly agent: number;
  readonly rate: number;
  readonly addedP50Ms: number;
  readonly addedP99Ms: number;
  readonly chunksPerSecond: number;
}

function loadFor(stack: Stack, kind: Kind, url: string): Load {
  const body = JSON.stringify({
    model: stack.model,
    messages: [
      { role: "system", content: "You are a helpful assistant." },
      { role: "user", content: "Tell me about the town on the hill, and its harbour." },
    ],
    max_tokens: 64,
    temperature: 0.7,
    ...(kind.name === "stream" ? { stream: true } : {}),
  });
  const headers = { "content-type": "application/json", authorization: `Bearer ${stack.apiKey}` };
  return { url, path: "/v1/chat/completions", headers, body, requests: kind.requests, concurrency };
}

/** CPU milliseconds per request of the watched processes while `load` ran. */
async function measured(load: Load, pids: readonly number[]): Promise<{ result: LoadResult; cpu: readonly number[] }> {
  const before = pids.map(cpuMs);
  const result = await runLoad(load);
  const cpu = pids.map((pid, i) => (cpuMs(pid) - (before[i] as number)) / load.requests);
  if (result.failures > 0) throw new Error(`${result.failures} of ${load.requests} requests failed at ${load.url}`);
  return { result, cpu };
}

async function round(stack: Stack, kind: Kind): Promise<Round> {
  const proxy = await measured(loadFor(stack, kind, stack.proxyUrl), [stack.pids.outerProxy, stack.pids.innerProxy]);
  const gateway = await measured(loadFor(stack, kind, stack.gatewayUrl), [stack.pids.controlPlane, stack.pids.agent]);
  const added = (q: number) => quantile(gateway.result.latenciesMs, q) - quantile(proxy.result.latenciesMs, q);
  return {
    controlPlane: (gateway.cpu[0] as number) / (proxy.cpu[0] as number),
    agent: (gateway.cpu[1] as number) / (proxy.cpu[1] as number),
    rate: kind.requests / gateway.result.seconds / (kind.requests / proxy.result.seconds),
    addedP50Ms: added(0.5),
    addedP99Ms: added(0.99),
    chunksPerSecond: gateway.result.frames / gateway.result.seconds,
  };
}

function line(label: string, values: readonly number[], limit?: number): string {
  const text = `${label.padEnd(34)} ${median(values).toFixed(2).padStart(8)}   (${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)})`;
  if (limit === undefined) return text;
  return `${text}   limit ${limit.toFixed(1)} ${median(values) <= limit ? "met" : "MISSED"}`;
}

export async function benchGateway({ rounds, only }: { rounds: number; only: string | undefined }): Promise<void> {
  const kinds = allKinds.filter((kind) => only === undefined || kind.name === only);
  const stack = await startStack();
  try {
    for (const kind of kinds) await round(stack, { ...kind, requests: 3 * kind.requests }); // Until V8 has optimised what runs: hosts live for days.
    const results = new Map<Kind, Round[]>(kinds.map((kind) => [kind, []]));
    for (let i = 0; i < rounds; i++) for (const kind of kinds) results.get(kind)?.push(await round(stack, kind));
    const out: string[] = [`\ngateway: medians of ${rounds} rounds (min to max); bare Fastify + undici proxy = 1`];
    for (const [kind, all] of results) {
      const of = (key: keyof Round) => all.map((r) => r[key]);
      out.push(`\nper ${kind.name === "request" ? "non-streamed request" : "64-chunk stream"}, ${concurrency} callers`);
      out.push(line("control plane CPU / proxy CPU", of("controlPlane"), kind.limit));
      out.push(line("agent CPU / proxy CPU", of("agent"), kind.limit));
      out.push(line("requests/s / proxy's", of("rate")));
      out.push(line("added latency p50, ms", of("addedP50Ms")));
      out.push(line("added latency p99, ms", of("addedP99Ms")));
      if (kind.name === "stream") out.push(line("stream chunks/s", of("chunksPerSecond")));
    }
    const { controlPlane, agent, outerProxy } = stack.pids;
    const memory = [controlPlane, agent, outerProxy].map((pid) => residentMiB(pid).toFixed(0));
    out.push(`\nmemory MiB: control plane ${memory[0]}, agent ${memory[1]}, bare proxy ${memory[2]}\n`);
    process.stdout.write(out.join("\n"));
  } finally {
    await stack.stop();
  }
}
