// Cost of the control plane and the agent, each compared with a bare Fastify + undici proxy in its place before the same engine
// stand-in, in interleaved rounds, with and without a trusted proxy in front; and cost of the control plane for Responses and Messages,
// compared with chat. Ratios are medians over rounds.
import { type Load, type LoadResult, median, quantile, runLoad } from "./load.ts";
import { cpuMs, residentMiB } from "./process-usage.ts";
import { type Stack, startStack } from "./stack.ts";

interface Kind {
  readonly name: "request" | "stream";
  readonly requests: number;
  readonly limits: { readonly controlPlane: number; readonly agent: number };
}

const allKinds: readonly Kind[] = [
  { name: "request", requests: 3000, limits: { controlPlane: 0.9, agent: 0.95 } },
  { name: "stream", requests: 600, limits: { controlPlane: 1.1, agent: 1.1 } },
];
const concurrency = 32;
const maxControlPlaneMiB = 300;

const messages = [
  { role: "system", content: "You are a helpful assistant." },
  { role: "user", content: "Tell me about the town on the hill, and its harbour." },
];

/** An API format that is compared with chat. */
interface Surface {
  readonly name: "Responses" | "Messages";
  readonly path: string;
  readonly headers: (apiKey: string) => Record<string, string>;
  readonly body: object;
}

const surfaces: readonly Surface[] = [
  {
    name: "Responses",
    path: "/v1/responses",
    headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
    body: { input: messages, max_output_tokens: 64, temperature: 0.7 },
  },
  {
    name: "Messages",
    path: "/v1/messages",
    headers: (apiKey) => ({ "x-api-key": apiKey, "anthropic-version": "2023-06-01" }),
    body: { system: messages[0]?.content, messages: messages.slice(1), max_tokens: 64, temperature: 0.7 },
  },
];
const maxOfChat = 1.2;

/** `headers`: those that a proxy in front adds. */
interface Front {
  readonly name: string;
  readonly env: NodeJS.ProcessEnv;
  readonly headers: Record<string, string>;
}

const noProxy: Front = { name: "no proxy in front", env: {}, headers: {} };
const fronts: readonly Front[] = [
  noProxy,
  {
    name: "a trusted proxy in front",
    env: { STOKER_TRUSTED_PROXIES: "127.0.0.1" },
    headers: { "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https" },
  },
];

interface Round {
  readonly controlPlane: number;
  readonly agent: number;
  readonly rate: number;
  readonly addedP50Ms: number;
  readonly addedP99Ms: number;
  readonly chunksPerSecond: number;
}

function chatLoad(stack: Stack, front: Front, kind: Kind, url: string): Load {
  const body = { messages, max_tokens: 64, temperature: 0.7 };
  const headers = { authorization: `Bearer ${stack.apiKey}`, ...front.headers };
  return loadOf(stack, kind, { url, path: "/v1/chat/completions", headers, body });
}

function surfaceLoad(stack: Stack, kind: Kind, { path, headers, body }: Surface): Load {
  return loadOf(stack, kind, { url: stack.gatewayUrl, path, headers: headers(stack.apiKey), body });
}

function loadOf(
  stack: Stack,
  kind: Kind,
  { url, path, headers, body }: Pick<Load, "url" | "path" | "headers"> & { readonly body: object },
): Load {
  return {
    url,
    path,
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: stack.model, ...body, ...(kind.name === "stream" ? { stream: true } : {}) }),
    requests: kind.requests,
    concurrency,
  };
}

/** CPU milliseconds per request of the watched processes while `load` ran. */
async function measured(load: Load, pids: readonly number[]): Promise<{ result: LoadResult; cpu: readonly number[] }> {
  const before = pids.map(cpuMs);
  const result = await runLoad(load);
  const cpu = pids.map((pid, i) => (cpuMs(pid) - (before[i] as number)) / load.requests);
  if (result.failures > 0)
    throw new Error(
      `${result.failures} of ${load.requests} requests failed at ${load.url}${load.path}, one with ${result.failure}`,
    );
  return { result, cpu };
}

async function round(stack: Stack, front: Front, kind: Kind): Promise<Round> {
  const { proxyUrl, gatewayUrl, pids } = stack;
  const proxy = await measured(chatLoad(stack, front, kind, proxyUrl), [pids.outerProxy, pids.innerProxy]);
  const gateway = await measured(chatLoad(stack, front, kind, gatewayUrl), [pids.controlPlane, pids.agent]);
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

/** CPU of the control plane per request of the surface, divided by that of chat. */
async function surfaceRound(stack: Stack, kind: Kind, surface: Surface): Promise<number> {
  const pids = [stack.pids.controlPlane];
  const chat = await measured(chatLoad(stack, noProxy, kind, stack.gatewayUrl), pids);
  const other = await measured(surfaceLoad(stack, kind, surface), pids);
  return (other.cpu[0] as number) / (chat.cpu[0] as number);
}

function line(label: string, values: readonly number[], limit?: number): string {
  const text = `${label.padEnd(34)} ${median(values).toFixed(2).padStart(8)}   (${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)})`;
  if (limit === undefined) return text;
  return `${text}   limit ${limit.toFixed(2)} ${median(values) <= limit ? "met" : "MISSED"}`;
}

export async function benchGateway({ rounds, only }: { rounds: number; only: string | undefined }): Promise<void> {
  const kinds = allKinds.filter((kind) => only === undefined || kind.name === only);
  const stacks: Stack[] = [];
  try {
    for (const { env } of fronts) stacks.push(await startStack(env));
    const runs = fronts.flatMap((front, i) =>
      kinds.map((kind) => ({ front, kind, stack: stacks[i] as Stack, rounds: [] as Round[] })),
    );
    const stack = stacks[0] as Stack;
    const surfaceRuns = surfaces.flatMap((surface) => kinds.map((kind) => ({ surface, kind, ratios: [] as number[] })));
    const warmUp = (kind: Kind) => ({ ...kind, requests: 3 * kind.requests });
    for (const run of runs) await round(run.stack, run.front, warmUp(run.kind));
    for (const { surface, kind } of surfaceRuns) await surfaceRound(stack, warmUp(kind), surface);
    for (let i = 0; i < rounds; i++) {
      for (const run of runs) run.rounds.push(await round(run.stack, run.front, run.kind));
      for (const run of surfaceRuns) run.ratios.push(await surfaceRound(stack, run.kind, run.surface));
    }
    const out: string[] = [`\ngateway: medians of ${rounds} rounds (min to max); bare Fastify + undici proxy = 1`];
    for (const { front, kind, rounds: all } of runs) {
      const of = (key: keyof Round) => all.map((r) => r[key]);
      const what = kind.name === "request" ? "non-streamed request" : "64-chunk stream";
      out.push(`\nper ${what}, ${concurrency} callers, ${front.name}`);
      out.push(line("control plane CPU / proxy CPU", of("controlPlane"), kind.limits.controlPlane));
      out.push(line("agent CPU / proxy CPU", of("agent"), kind.limits.agent));
      out.push(line("requests/s / proxy's", of("rate")));
      out.push(line("added latency p50, ms", of("addedP50Ms")));
      out.push(line("added latency p99, ms", of("addedP99Ms")));
      if (kind.name === "stream") out.push(line("stream chunks/s", of("chunksPerSecond")));
    }
    out.push(`\ncontrol plane CPU of the same conversation in another format, ${concurrency} callers; chat = 1`);
    for (const { surface, kind, ratios } of surfaceRuns)
      out.push(line(`${surface.name}, per ${kind.name}`, ratios, maxOfChat));
    for (const [i, { pids }] of stacks.entries()) {
      const [controlPlane, agent, proxy] = [pids.controlPlane, pids.agent, pids.outerProxy].map(residentMiB);
      out.push(`\nmemory, ${fronts[i]?.name}: agent ${agent?.toFixed(0)} MiB, bare proxy ${proxy?.toFixed(0)} MiB`);
      out.push(line("control plane, MiB", [controlPlane ?? Number.NaN], maxControlPlaneMiB));
    }
    process.stdout.write(`${out.join("\n")}\n`);
  } finally {
    for (const stack of stacks) await stack.stop();
  }
}
