// Gateways of others beside Stoker's control plane and agent: CPU per request and per 64-chunk stream, latency of one caller, and memory, all
// before the same engine stand-in in alternating rounds. A bare Fastify + undici proxy = 1. `scripts/bench-peers.sh` installs them.
// The report names what each gateway does besides forwarding, because that work is part of its cost.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { freePort } from "../test/fakes/free-port.ts";
import { startPostgres } from "../test/fakes/postgres.ts";
import { atWorkerEnd } from "../test/fakes/worker-end.ts";
import type { BenchOptions, Figures } from "./figures.ts";
import { type Load, median, quantile, runLoad, runWholeLoad } from "./load.ts";
import { childrenCpuMs, commandOf, cpuMs, parentOf, residentMiB, treeOf } from "./process-usage.ts";
import { endChild, type Stack, startStack, until } from "./stack.ts";

const root = join(import.meta.dirname, "..");
const installed = join(root, ".cache/peers");
const key = "sk-bench-0123456789";

interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

/** A gateway that forwards chats to one server. */
interface Peer {
  readonly name: string;
  /** Work besides forwarding, such as checks of keys. */
  readonly keeps: string;
  /** Why its streams are not measured. */
  readonly noStreams?: string;
  /** Share of the usual warm-up. */
  readonly warmUpShare?: number;
  /** Undefined: not installed. */
  readonly program: string | undefined;
  readonly command: (program: string, setup: Setup) => Command;
  readonly headers?: (engineUrl: string) => Record<string, string>;
  /** Default: that of OpenAI. */
  readonly path?: string;
  /** Gives a database to `command`, and prepares the running gateway. Returns the key of its callers. */
  readonly prepare?: (url: string, setup: Setup) => Promise<string>;
}

/** `folder` is its own and empty, and so is the database. */
interface Setup {
  readonly engineUrl: string;
  readonly port: number;
  readonly metricsPort: number;
  readonly folder: string;
  readonly model: string;
  readonly databaseUrl: string;
}

const onPath = (name: string): string | undefined =>
  [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin"]
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
const inCache = (path: string): string | undefined =>
  existsSync(join(installed, path)) ? join(installed, path) : undefined;

const peers: readonly Peer[] = [
  {
    name: "nginx",
    keeps: "nothing",
    program: onPath("nginx"),
    command: (program, { engineUrl, port, folder }) => {
      const config = join(folder, "nginx.conf");
      writeFileSync(config, nginxConfig(engineUrl, port, folder));
      return { program, args: ["-p", folder, "-c", config, "-e", join(folder, "error.log")] };
    },
  },
  {
    name: "onwards",
    keeps: "keys",
    program: inCache("onwards/bin/onwards"),
    command: (program, { engineUrl, port, metricsPort, folder, model }) => {
      const targets = join(folder, "targets.json");
      writeFileSync(targets, JSON.stringify({ targets: { [model]: { url: engineUrl, keys: [key] } } }));
      return {
        program,
        args: [
          "--targets",
          targets,
          "--port",
          String(port),
          "--metrics-port",
          String(metricsPort),
          "--shutdown-delay-secs",
          "0",
        ],
      };
    },
  },
  {
    name: "Doubleword control layer",
    keeps: "keys, credits, prices and a row per request, written after the response; without its log of bodies",
    program: inCache("dwctl/bin/dwctl"),
    path: "/ai/v1/chat/completions",
    command: (program, setup) => {
      const config = join(setup.folder, "config.yaml");
      writeFileSync(config, dwctlConfig(setup));
      return { program, args: ["-f", config], env: { RUST_LOG: "error" } };
    },
    prepare: prepareDwctl,
  },
  {
    name: "Portkey gateway",
    keeps: "nothing (keys and money are in its hosted service)",
    noStreams: "its package 1.15.2 answers each with 500 (immutable headers), on Node 20 and 24",
    program: inCache("portkey/node_modules/@portkey-ai/gateway/build/start-server.js"),
    command: (program, { port }) => ({
      program: process.execPath,
      args: [program, "--headless", `--port=${port}`],
      env: { NODE_ENV: "production", TRUSTED_CUSTOM_HOSTS: "127.0.0.1,localhost" },
    }),
    headers: (engineUrl) => ({ "x-portkey-provider": "openai", "x-portkey-custom-host": `${engineUrl}/v1` }),
  },
  {
    name: "LiteLLM",
    keeps:
      "one key; keys of its own and spend need its database client, which fetches a program that package registries lack",
    // Python has no compiler to warm, and takes a hundred times as long.
    warmUpShare: 0.05,
    program: inCache("litellm/bin/litellm"),
    command: (program, { engineUrl, port, folder, model }) => {
      const config = join(folder, "config.yaml");
      writeFileSync(config, liteLlmConfig(engineUrl, model));
      return {
        program,
        args: [
          "--config",
          config,
          "--host",
          "127.0.0.1",
          "--port",
          String(port),
          "--num_workers",
          "1",
          "--telemetry",
          "False",
        ],
        env: { LITELLM_LOG: "ERROR", LITELLM_LOCAL_MODEL_COST_MAP: "True", NO_DOCS: "True" },
      };
    },
  },
];

const dwctlAdmin = "admin@example.com";

const dwctlConfig = ({ port, databaseUrl }: Setup) => `host: 127.0.0.1
port: ${port}
secret_key: 0123456789abcdef0123456789abcdef
admin_email: ${dwctlAdmin}
database:
  type: external
  url: ${databaseUrl}
auth:
  native: { enabled: false }
  proxy_header: { enabled: true }
enable_request_logging: false
enable_analytics: true
batches: { enabled: false }
`;

/** Gives a customer credits, a key and a priced model. */
async function prepareDwctl(url: string, { engineUrl, model }: Setup): Promise<string> {
  const call = async <Answer>(method: string, path: string, body?: unknown): Promise<Answer> => {
    const response = await fetch(`${url}/admin/api/v1${path}`, {
      method,
      headers: { "x-doubleword-user": dwctlAdmin, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as Answer;
  };
  await until("the control layer", 60, async () =>
    (await fetch(`${url}/healthz`).catch(() => undefined))?.ok ? true : undefined,
  );
  const endpoint = { name: "engine", url: `${engineUrl}/v1`, model_filter: [model], sync: true, skip_fetch: true };
  await call("POST", "/endpoints", endpoint);
  const models = await call<{ data: { id: string }[] }>("GET", "/models");
  const { id } = models.data[0] as { id: string };
  const tariff = { name: "standard", input_price_per_token: "0.000001", output_price_per_token: "0.000002" };
  await call("PATCH", `/models/${id}`, { tariffs: [{ ...tariff, api_key_purpose: "realtime" }] });
  await call("POST", `/groups/00000000-0000-0000-0000-000000000000/models/${id}`);
  const roles = ["StandardUser"];
  const user = await call<{ id: string }>("POST", "/users", { username: "ada", email: "ada@example.com", roles });
  const grant = { user_id: user.id, transaction_type: "admin_grant", amount: "1000000", source_id: user.id };
  await call("POST", "/transactions", grant);
  const made = await call<{ key: string }>("POST", `/users/${user.id}/api-keys`, {
    name: "bench",
    purpose: "realtime",
  });
  return made.key;
}

const nginxConfig = (engineUrl: string, port: number, folder: string) => `daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  upstream engine { server ${new URL(engineUrl).host}; keepalive 64; }
  server {
    listen 127.0.0.1:${port};
    keepalive_requests 1000000;
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header connection "";
      proxy_buffering off;
    }
  }
}
`;

const liteLlmConfig = (engineUrl: string, model: string) => `model_list:
  - model_name: ${model}
    litellm_params:
      model: openai/${model}
      api_base: ${engineUrl}/v1
      api_key: none
general_settings:
  master_key: ${key}
`;

/** A gateway that runs. */
interface Gateway {
  readonly name: string;
  readonly keeps: string;
  readonly noStreams?: string | undefined;
  readonly warmUpShare?: number | undefined;
  readonly url: string;
  readonly path?: string | undefined;
  readonly headers: Record<string, string>;
  /** Now: a gateway may start processes of its own. */
  readonly pids: () => readonly number[];
  /** Process that started those of its database. */
  readonly database?: number | undefined;
}

interface Kind {
  readonly name: "request" | "stream";
  readonly requests: number;
  /** Requests before the first round. Fewer measure V8's compiler. */
  readonly warmUp: number;
}
const kinds: readonly Kind[] = [
  { name: "request", requests: 1000, warmUp: 12_000 },
  { name: "stream", requests: 200, warmUp: 2400 },
];
const concurrency = 32;
const callsOfOne = 200;

const loadOf = (gateway: Gateway, model: string, { name }: Kind, requests: number, callers: number): Load => ({
  url: gateway.url,
  path: gateway.path ?? "/v1/chat/completions",
  headers: { "content-type": "application/json", ...gateway.headers },
  body: JSON.stringify({
    model,
    messages: [{ role: "user", content: "Tell me about the town on the hill, and its harbour." }],
    max_tokens: 64,
    temperature: 0.7,
    ...(name === "stream" ? { stream: true } : {}),
  }),
  requests,
  concurrency: callers,
});

/** Microseconds of CPU per request. */
interface Sample {
  readonly cpu: number;
  readonly database: number;
}

async function measured(gateway: Gateway, model: string, kind: Kind): Promise<Sample> {
  const pids = gateway.pids();
  const { database } = gateway;
  const used = () => [
    pids.reduce((sum, pid) => sum + cpuMs(pid), 0),
    database === undefined ? 0 : cpuMs(database) + childrenCpuMs(database),
  ];
  const before = used();
  await runWholeLoad(loadOf(gateway, model, kind, kind.requests, concurrency));
  const [cpu = 0, ofDatabase = 0] = used().map((after, i) => ((after - (before[i] as number)) * 1000) / kind.requests);
  return { cpu, database: ofDatabase };
}

/** Starts `peer`, and resolves once it serves. */
async function startPeer(
  peer: Peer,
  program: string,
  { engineUrl, model }: Stack,
  stops: (() => Promise<void>)[],
): Promise<Gateway> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "stoker-peer-"));
  const metricsPort = await freePort();
  const postgres = peer.prepare ? await startPostgres({ onDisk: true }) : undefined;
  if (postgres) stops.push(() => postgres.stop());
  const databaseUrl = (await postgres?.createDatabase()) ?? "";
  const setup = { engineUrl, port, metricsPort, folder, model, databaseUrl };
  const command = peer.command(program, setup);
  const child = spawn(command.program, command.args, {
    cwd: folder,
    env: { ...process.env, ...command.env },
    stdio: ["ignore", "ignore", process.env["STOKER_BENCH_LOGS"] ? "inherit" : "ignore"],
  });
  atWorkerEnd(() => child.kill("SIGTERM"));
  stops.push(async () => {
    await endChild(child);
    rmSync(folder, { recursive: true, force: true });
  });
  const url = `http://127.0.0.1:${port}`;
  const callerKey = (await peer.prepare?.(url, setup)) ?? key;
  const gateway: Gateway = {
    name: peer.name,
    keeps: peer.keeps,
    noStreams: peer.noStreams,
    warmUpShare: peer.warmUpShare,
    url,
    path: peer.path,
    headers: { authorization: `Bearer ${callerKey}`, ...peer.headers?.(engineUrl) },
    pids: () => treeOf(child.pid as number),
    database:
      postgres &&
      treeOf(process.pid).find((pid) => parentOf(pid) === process.pid && commandOf(pid).startsWith("postgres")),
  };
  await until(`a chat through ${peer.name}`, 180, async () => {
    if (child.exitCode !== null) throw new Error(`${peer.name} ended with code ${child.exitCode}`);
    const request = kinds[0] as Kind;
    return (await runLoad(loadOf(gateway, model, request, 1, 1))).failures === 0 ? true : undefined;
  });
  return gateway;
}

/** The bare proxy first: the others are compared with it. */
function ownGateways(stack: Stack): readonly Gateway[] {
  const { controlPlane, agent, innerProxy, outerProxy, up } = stack.pids;
  const headers = { authorization: `Bearer ${stack.apiKey}` };
  const database = treeOf(up).find((pid) => commandOf(pid).startsWith("postgres"));
  const stoker = { url: stack.gatewayUrl, headers, database };
  return [
    { name: "bare proxy", keeps: "nothing", url: stack.innerProxyUrl, headers: {}, pids: () => [innerProxy] },
    {
      name: "two bare proxies",
      keeps: "nothing",
      url: stack.proxyUrl,
      headers: {},
      pids: () => [outerProxy, innerProxy],
    },
    {
      ...stoker,
      name: "Stoker's control plane",
      keeps: "keys, limits, prices, holds and ledger",
      pids: () => [controlPlane],
    },
    {
      ...stoker,
      name: "Stoker's control plane and agent",
      keeps: "the same, and signed records",
      pids: () => [controlPlane, agent],
    },
  ];
}

const runs = (gateway: Gateway, kind: Kind): boolean => kind.name === "request" || gateway.noStreams === undefined;

async function measureAll(gateways: readonly Gateway[], model: string, rounds: number) {
  for (const kind of kinds)
    for (const gateway of gateways.filter((one) => runs(one, kind))) {
      const warmUp = kind.warmUp * (gateway.warmUpShare ?? 1);
      await runWholeLoad(loadOf(gateway, model, kind, warmUp, concurrency));
    }
  const samples = new Map(
    gateways.map(({ name }) => [name, { request: [] as Sample[], stream: [] as Sample[], p50: [] as number[] }]),
  );
  for (let round = 0; round < rounds; round++) {
    // Every second round in the other order: each inherits the caches of the one before.
    const inOrder = round % 2 === 0 ? gateways : [...gateways].reverse();
    for (const kind of kinds)
      for (const gateway of inOrder.filter((one) => runs(one, kind)))
        samples.get(gateway.name)?.[kind.name].push(await measured(gateway, model, kind));
    for (const gateway of inOrder) {
      const { latenciesMs } = await runWholeLoad(loadOf(gateway, model, kinds[0] as Kind, callsOfOne, 1));
      samples.get(gateway.name)?.p50.push(quantile(latenciesMs, 0.5));
    }
  }
  return samples;
}

function show(figures: Figures, gateways: readonly Gateway[], samples: Awaited<ReturnType<typeof measureAll>>): string {
  const bare = samples.get((gateways[0] as Gateway).name);
  const lines = gateways.map(({ name, keeps, noStreams, pids, database }) => {
    const own = samples.get(name);
    if (!own || !bare) throw new Error(`no samples of ${name}`);
    const ratios = (kind: Kind["name"], part: keyof Sample) =>
      own[kind].map((sample, i) => sample[part] / (bare[kind][i] as Sample).cpu);
    const figure = (what: string, values: readonly number[], unit?: string) => {
      figures.judge({ name: `${name}, ${what}`, values, ...(unit === undefined ? {} : { unit }) });
      return `${median(values).toFixed(2)} (${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)})`;
    };
    const memory = pids().reduce((sum, pid) => sum + residentMiB(pid), 0);
    return [
      `\n${name}   keeps: ${keeps}`,
      `  CPU / bare proxy, request          ${figure("request", ratios("request", "cpu"))}`,
      `  CPU / bare proxy, 64-chunk stream  ${noStreams ?? figure("stream", ratios("stream", "cpu"))}`,
      ...(database
        ? [`  its database besides, request      ${figure("database, request", ratios("request", "database"))}`]
        : []),
      `  added p50, one caller, ms          ${figure(
        "added p50 of one caller",
        own.p50.map((ms, i) => ms - (bare.p50[i] as number)),
        "ms",
      )}`,
      `  resident MiB                       ${figure("resident", [memory], "MiB")}`,
    ].join("\n");
  });
  return lines.join("\n");
}

export async function benchPeers({ rounds, only, figures }: BenchOptions): Promise<void> {
  const stack = await startStack();
  const stops: (() => Promise<void>)[] = [];
  try {
    const gateways = [...ownGateways(stack)];
    for (const peer of peers) {
      if (only !== undefined && peer.name !== only) continue;
      if (peer.program) gateways.push(await startPeer(peer, peer.program, stack, stops));
      else process.stdout.write(`not compared, because it is not installed (scripts/bench-peers.sh): ${peer.name}\n`);
    }
    const samples = await measureAll(gateways, stack.model, rounds);
    process.stdout.write(`\npeers: medians of ${rounds} rounds (min to max)\n${show(figures, gateways, samples)}\n`);
  } finally {
    for (const stop of stops.reverse()) await stop();
    await stack.stop();
  }
}
