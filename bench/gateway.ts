// Cost of the control plane and the agent, each compared with a bare Fastify + undici proxy in its place before the same engine
// stand-in, with and without a trusted proxy in front; and cost of the control plane for Responses and Messages, compared with chat.
// All loads use one installation, are warmed equally and take turns in each round. Ratios are medians over rounds; those of formats are of
// all rounds together.
import type { BenchOptions, Figure, Figures } from "./figures.ts";
import { type Load, type LoadResult, median, quantile, runWholeLoad } from "./load.ts";
import { cpuMs, residentMiB } from "./process-usage.ts";
import { type Stack, startStack } from "./stack.ts";

/** `warmUp`: requests of each load before the first round. Fewer measure V8's compiler. */
interface Kind {
  readonly name: "request" | "stream";
  readonly requests: number;
  readonly warmUp: number;
  readonly limits: { readonly controlPlane: number; readonly agent: number };
}

const allKinds: readonly Kind[] = [
  { name: "request", requests: 3000, warmUp: 15_000, limits: { controlPlane: 0.9, agent: 0.95 } },
  { name: "stream", requests: 600, warmUp: 3000, limits: { controlPlane: 1.1, agent: 1.1 } },
];
const concurrency = 32;
const maxControlPlaneMiB = 300;
const maxOfChat = 1.2;

const messages = [
  { role: "system", content: "You are a helpful assistant." },
  { role: "user", content: "Tell me about the town on the hill, and its harbour." },
];

/** Requests of one kind of client. `isBare`: sent to the bare proxies instead of Stoker. */
interface Surface {
  readonly isBare?: boolean;
  readonly path: string;
  readonly headers: (apiKey: string) => Record<string, string>;
  readonly body: object;
  readonly localAddress?: string;
}

/** A peer from this address is a trusted proxy of the installation; others are clients. */
const proxyAddress = "127.0.0.2";

const chat: Surface = {
  path: "/v1/chat/completions",
  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  body: { messages, max_tokens: 64, temperature: 0.7 },
};
const behindProxy: Surface = {
  ...chat,
  headers: (apiKey) => ({ ...chat.headers(apiKey), "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https" }),
  localAddress: proxyAddress,
};
const surfaces = {
  bare: { ...chat, isBare: true },
  chat,
  bareBehindProxy: { ...behindProxy, isBare: true },
  behindProxy,
  responses: {
    path: "/v1/responses",
    headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
    body: { input: messages, max_output_tokens: 64, temperature: 0.7 },
  },
  messages: {
    path: "/v1/messages",
    headers: (apiKey) => ({ "x-api-key": apiKey, "anthropic-version": "2023-06-01" }),
    body: { system: messages[0]?.content, messages: messages.slice(1), max_tokens: 64, temperature: 0.7 },
  },
} as const satisfies Readonly<Record<string, Surface>>;
type SurfaceName = keyof typeof surfaces;
const names = Object.keys(surfaces) as SurfaceName[];

/** CPU milliseconds per request: of the control plane, or the bare proxy in its place, and of the agent, or the one in its place. */
interface Sample {
  readonly outerCpu: number;
  readonly innerCpu: number;
  readonly result: LoadResult;
}

type Round = Readonly<Record<SurfaceName, Sample>>;

function loadOf(stack: Stack, kind: Kind, surface: Surface, requests: number): Load {
  const { path, headers, body, localAddress } = surface;
  return {
    url: surface.isBare ? stack.proxyUrl : stack.gatewayUrl,
    path,
    headers: { "content-type": "application/json", ...headers(stack.apiKey) },
    body: JSON.stringify({ model: stack.model, ...body, ...(kind.name === "stream" ? { stream: true } : {}) }),
    requests,
    concurrency,
    localAddress,
  };
}

/** Throws if a request fails. */
async function measured(stack: Stack, kind: Kind, surface: Surface, requests: number): Promise<Sample> {
  const load = loadOf(stack, kind, surface, requests);
  const { outerProxy, innerProxy, controlPlane, agent } = stack.pids;
  const pids = surface.isBare ? [outerProxy, innerProxy] : [controlPlane, agent];
  const before = pids.map(cpuMs);
  const result = await runWholeLoad(load);
  const [outerCpu = 0, innerCpu = 0] = pids.map((pid, i) => (cpuMs(pid) - (before[i] as number)) / requests);
  return { outerCpu, innerCpu, result };
}

/**
 * The order of `count` loads (even) in a round. Over `count` rounds each load follows each other one once: each inherits the garbage
 * of the one before, and an idle process if that one was not its own. Source: Williams, 1949, balanced Latin squares.
 */
function orderOfRound(number: number, count: number): number[] {
  return Array.from({ length: count }, (_, place) => {
    const offset = place % 2 === 0 ? -place / 2 : (place + 1) / 2;
    return (((number + offset) % count) + count) % count;
  });
}

/** Each load once. */
async function round(stack: Stack, kind: Kind, number: number, requests: number): Promise<Round> {
  const samples: Partial<Record<SurfaceName, Sample>> = {};
  for (const index of orderOfRound(number, names.length)) {
    const name = names[index] as SurfaceName;
    samples[name] = await measured(stack, kind, surfaces[name], requests);
  }
  return samples as Round;
}

const warmUpParts = 3;

async function warmUp(stack: Stack, kinds: readonly Kind[]): Promise<void> {
  for (let part = 0; part < warmUpParts; part++)
    for (const kind of kinds) await round(stack, kind, part, Math.ceil(kind.warmUp / warmUpParts));
}

/** `name`: of the figure, beside what it is of. */
function line(figures: Figures, of: string, { name, ...figure }: Figure): string {
  const { values, value = median(values) } = figure;
  const verdict = figures.judge({ ...figure, name: `${of}, ${name}` });
  return `${name.padEnd(34)} ${value.toFixed(2).padStart(8)}   (${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)})   ${verdict}`;
}

function againstProxy(
  { name, limits }: Kind,
  rounds: readonly Round[],
  ours: SurfaceName,
  bare: SurfaceName,
): readonly Figure[] {
  const each = (value: (own: Sample, floor: Sample) => number) => rounds.map((one) => value(one[ours], one[bare]));
  const added = (q: number) =>
    each((own, floor) => quantile(own.result.latenciesMs, q) - quantile(floor.result.latenciesMs, q));
  const cpu = (part: "outerCpu" | "innerCpu") => each((own, floor) => own[part] / floor[part]);
  return [
    { name: "control plane CPU / proxy CPU", values: cpu("outerCpu"), atMost: limits.controlPlane },
    { name: "agent CPU / proxy CPU", values: cpu("innerCpu"), atMost: limits.agent },
    { name: "seconds / proxy's", values: each((own, floor) => own.result.seconds / floor.result.seconds) },
    { name: "added latency p50", unit: "ms", values: added(0.5) },
    { name: "added latency p99", unit: "ms", values: added(0.99) },
    ...(name === "stream"
      ? [{ name: "microseconds of a chunk", values: each(({ result }) => (result.seconds * 1e6) / result.frames) }]
      : []),
  ];
}

/** CPU of all rounds: a garbage collection in one round of chat would make its ratio to any other format small. */
function ofChat(name: "responses" | "messages", rounds: readonly Round[]): Figure {
  const cpu = (of: SurfaceName) => rounds.map((one) => one[of].outerCpu);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const values = rounds.map((one) => one[name].outerCpu / one.chat.outerCpu);
  return { name, values, value: sum(cpu(name)) / sum(cpu("chat")), atMost: maxOfChat };
}

export async function benchGateway({ rounds, only, figures }: BenchOptions): Promise<void> {
  const kinds = allKinds.filter((kind) => only === undefined || kind.name === only);
  const stack = await startStack({ STOKER_TRUSTED_PROXIES: proxyAddress });
  try {
    await warmUp(stack, kinds);
    const runs = kinds.map((kind) => ({ kind, rounds: [] as Round[] }));
    for (let i = 0; i < rounds; i++)
      for (const run of runs) run.rounds.push(await round(stack, run.kind, i, run.kind.requests));
    const out: string[] = [`\ngateway: medians of ${rounds} rounds (min to max); bare Fastify + undici proxy = 1`];
    const show = (title: string, of: string, all: readonly Figure[]) =>
      out.push(`\n${title}`, ...all.map((one) => line(figures, of, one)));
    for (const { kind, rounds: all } of runs) {
      const what = `per ${kind.name === "request" ? "non-streamed request" : "64-chunk stream"}, ${concurrency} callers`;
      show(`${what}, no proxy in front`, kind.name, againstProxy(kind, all, "chat", "bare"));
      show(
        `${what}, a trusted proxy in front`,
        `${kind.name} behind a trusted proxy`,
        againstProxy(kind, all, "behindProxy", "bareBehindProxy"),
      );
      show(
        `${what}: control plane CPU of the same conversation in another format; chat = 1`,
        `${kind.name}, control plane CPU / chat's`,
        (["responses", "messages"] as const).map((name) => ofChat(name, all)),
      );
    }
    const { controlPlane, agent, outerProxy } = stack.pids;
    const resident = (name: string, pid: number) => ({ name, unit: "MiB", values: [residentMiB(pid)] });
    show("resident memory after all, MiB", "memory", [
      { ...resident("control plane", controlPlane), atMost: maxControlPlaneMiB },
      resident("agent", agent),
      resident("bare proxy", outerProxy),
    ]);
    process.stdout.write(`${out.join("\n")}\n`);
  } finally {
    await stack.stop();
  }
}
