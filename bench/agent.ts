// Cost of the agent's data path compared with direct engine calls, time to adopt model servers after a restart, and speed of the
// metrics page. Uses a real agent process with a desired-state file instead of a control plane.
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { createUpstreams } from "../control-plane/inference/upstreams.ts";
import { type HostId, randomId } from "../proto/ids.ts";
import { signTicket } from "../proto/ticket.ts";
import { type LocalAgent, makeLocalAgent } from "../test/fakes/local-agent.ts";
import type { BenchOptions } from "./figures.ts";
import { type LoadResult, median, quantile, runCalls, runLoad } from "./load.ts";
import { cpuMs } from "./process-usage.ts";

const model = "fake/model";
const root = join(import.meta.dirname, "..");
const adopted = 50;
const [scraped, gpus] = [16, 8];

interface Kind {
  readonly name: "request" | "stream";
  /** Number of requests by number of callers. */
  readonly requests: Readonly<Record<number, number>>;
}

const kinds: readonly Kind[] = [
  { name: "request", requests: { 1: 500, 32: 3000, 256: 3000 } },
  { name: "stream", requests: { 1: 100, 32: 600, 256: 600 } },
];
const callers = [1, 32, 256];

interface Round {
  readonly alone: number;
  readonly shared: number;
  readonly addedP50Ms: number;
  readonly addedP99Ms: number;
  readonly cpuMsPerRequest: number;
}

const bodyOf = (kind: Kind) =>
  JSON.stringify({
    model,
    messages: [{ role: "user", content: "Tell me about the town on the hill, and its harbour." }],
    max_tokens: 64,
    ...(kind.name === "stream" ? { stream: true, stream_options: { include_usage: true } } : {}),
  });

function ticketsFor(agent: LocalAgent, instanceId: string, kind: Kind, n: number): string[] {
  const key = Buffer.from(readFileSync(join(agent.folder, "data", "local-ticket.key"), "utf8").trim(), "base64");
  const now = Date.now();
  return Array.from({ length: n }, () =>
    signTicket(
      {
        requestId: randomId<"request">(24),
        attempt: 1,
        hostId: "host",
        instanceId,
        deployId: "deployment",
        admittedAtMs: now,
        expiresAtMs: now + 600_000,
        account: "u:0000000000000",
        keyId: "key",
        replicaId: "replica",
        model,
        leaseIds: ["lease"],
        hold: "1000000",
        permits: 1,
        inputTokensBound: 60,
        inputTokensEstimate: 15,
        maxTokens: 64,
        stream: kind.name === "stream",
        usage: "extra",
        rates: ["20000000", "10000000", "40000000"],
        priceVersion: 1,
      },
      key,
    ),
  );
}

async function round(agent: LocalAgent, engineUrl: string, instanceId: string, kind: Kind, n: number): Promise<Round> {
  const requests = kind.requests[n] as number;
  const body = bodyOf(kind);
  const origin = `http://127.0.0.1:${agent.ports().ingress_port}`;
  const path = `/i/${instanceId}/v1/chat/completions`;
  const headers = { "content-type": "application/json" };
  const load = { headers, body, requests, concurrency: n };
  const direct = await runLoad({ ...load, url: engineUrl, path: "/v1/chat/completions" });
  const before = cpuMs(agent.pid);
  const tickets = ticketsFor(agent, instanceId, kind, requests);
  const alone = await runLoad({ ...load, url: origin, path, header: (i) => ["x-stoker-ticket", tickets[i] as string] });
  const cpu = cpuMs(agent.pid) - before;
  const shared = await overShared(origin, path, body, ticketsFor(agent, instanceId, kind, requests), n);
  for (const result of [direct, alone, shared])
    if (result.failures > 0) throw new Error(`${result.failures} of ${requests} requests failed`);
  return {
    alone: direct.seconds / alone.seconds,
    shared: direct.seconds / shared.seconds,
    addedP50Ms: quantile(alone.latenciesMs, 0.5) - quantile(direct.latenciesMs, 0.5),
    addedP99Ms: quantile(alone.latenciesMs, 0.99) - quantile(direct.latenciesMs, 0.99),
    cpuMsPerRequest: cpu / requests,
  };
}

/** Like the gateway: all callers share one connection. */
async function overShared(
  origin: string,
  path: string,
  text: string,
  tickets: readonly string[],
  n: number,
): Promise<LoadResult> {
  const upstreams = createUpstreams(() => ({}));
  const body = Buffer.from(text);
  try {
    return await runCalls(tickets.length, n, (i, done) => {
      let status = 0;
      upstreams.send(
        { origin, hostId: "local" as HostId },
        { path, ticket: tickets[i] as string, body },
        {
          onRequestStart() {},
          onResponseStart(_, code) {
            status = code;
          },
          onResponseData() {},
          onResponseEnd: () => done(status === 200),
          onResponseError: () => done(false),
        },
      );
    });
  } finally {
    await upstreams.close();
  }
}

/** Waits until every instance responds through the data path. Returns the seconds since `startMs`. */
async function untilAllServe(agent: LocalAgent, ids: readonly string[], startMs: number): Promise<number> {
  const waiting = new Set(ids);
  while (waiting.size > 0) {
    for (const id of [...waiting]) if ((await agent.complete(id))?.status === 200) waiting.delete(id);
    if (performance.now() - startMs > 600_000)
      throw new Error(`${waiting.size} instances did not come\n${agent.log()}`);
    await sleep(5);
  }
  return (performance.now() - startMs) / 1000;
}

async function adoption(rounds: number): Promise<{ readonly cold: number; readonly adopted: readonly number[] }> {
  const agent = makeLocalAgent();
  try {
    const specs = Array.from({ length: adopted }, () => agent.spec());
    const ids = specs.map((spec) => spec.instanceId as string);
    agent.want(specs);
    let startMs = performance.now();
    agent.start();
    const cold = await untilAllServe(agent, ids, startMs);
    const before = new Set(agent.pids());
    const seconds: number[] = [];
    for (let i = 0; i < rounds; i++) {
      await agent.kill("SIGKILL");
      startMs = performance.now();
      agent.start();
      seconds.push(await untilAllServe(agent, ids, startMs));
    }
    if (agent.pids().some((pid) => !before.has(pid))) throw new Error("a model server was restarted");
    return { cold, adopted: seconds };
  } finally {
    await agent.clean();
  }
}

async function scrapes(engineUrl: string): Promise<{ readonly ms: readonly number[]; readonly series: number }> {
  const agent = makeLocalAgent();
  try {
    const specs = Array.from({ length: scraped }, () => external(agent, engineUrl));
    agent.want(specs);
    agent.start({ STOKER_GPUS: String(gpus) });
    await untilAllServe(
      agent,
      specs.map((spec) => spec.instanceId as string),
      performance.now(),
    );
    const url = `http://127.0.0.1:${agent.ports().metrics_port}/metrics`;
    const ms: number[] = [];
    let page = "";
    for (let i = 0; i < 600; i++) {
      const startMs = performance.now();
      page = await (await fetch(url)).text();
      if (i >= 100) ms.push(performance.now() - startMs);
    }
    return { ms, series: page.split("\n").filter((line) => line !== "" && !line.startsWith("#")).length };
  } finally {
    await agent.clean();
  }
}

const external = (agent: LocalAgent, externalUrl: string) =>
  agent.spec({ engine: "external", externalUrl, servedModelName: model, weights: null, maxBatchSize: 1024 });

async function startEngine(): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const script = join(root, "test/fakes/engine-process.ts");
  const child = spawn(process.execPath, [script, "--port", "0", "--tokens", "64", "--model", model], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    const url = /http:\/\/\S+/.exec(line)?.[0];
    if (!url) continue;
    child.stdout?.resume();
    return { child, url };
  }
  throw new Error("the engine stand-in did not start");
}

const span = (values: readonly number[], digits = 2) =>
  `${median(values).toFixed(digits)} (${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)})`;

export async function benchAgent({ rounds, only, figures }: BenchOptions): Promise<void> {
  const out: string[] = [`\nagent: medians of ${rounds} rounds (min to max); direct engine calls = 1`];
  const engine = await startEngine();
  const wants = (name: string) => only === undefined || only === name;
  try {
    if (wants("ingress")) {
      const agent = makeLocalAgent();
      try {
        const spec = external(agent, engine.url);
        const id = spec.instanceId as string;
        agent.want([spec]);
        agent.start();
        await untilAllServe(agent, [id], performance.now());
        for (const kind of kinds) await round(agent, engine.url, id, kind, 32); // warm the JITs
        for (const kind of kinds) {
          for (const n of callers) {
            const all: Round[] = [];
            for (let i = 0; i < rounds; i++) all.push(await round(agent, engine.url, id, kind, n));
            const of = (key: keyof Round) => all.map((r) => r[key]);
            const what = `${kind.name === "request" ? "requests" : "64-chunk streams"}, ${n} connection${n === 1 ? "" : "s"}`;
            figures.judge({ name: `${what}, CPU of a request`, unit: "ms", values: of("cpuMsPerRequest") });
            out.push(
              `\n${what}`,
              `  requests/s, a connection per caller   ${span(of("alone"))}`,
              `  requests/s, one shared connection     ${span(of("shared"))}`,
              `  added latency p50, ms                 ${span(of("addedP50Ms"))}`,
              `  added latency p99, ms                 ${span(of("addedP99Ms"))}`,
              `  CPU of the agent per request, ms      ${span(of("cpuMsPerRequest"), 3)}`,
            );
          }
        }
      } finally {
        await agent.clean();
      }
    }
    if (wants("metrics")) {
      const { ms, series } = await scrapes(engine.url);
      out.push(
        `\n/metrics with ${gpus} GPUs and ${scraped} instances (${series} series): ` +
          `p50 ${quantile(ms, 0.5).toFixed(2)} ms, p99 ${quantile(ms, 0.99).toFixed(2)} ms`,
      );
    }
  } finally {
    engine.child.kill("SIGTERM");
  }
  if (wants("adoption")) {
    const { cold, adopted: seconds } = await adoption(rounds);
    out.push(
      `\nadoption of ${adopted} instances after kill -9, until each serves: ${span(seconds)} s (cold start: ${cold.toFixed(1)} s)`,
    );
  }
  process.stdout.write(`${out.join("\n")}\n`);
}
