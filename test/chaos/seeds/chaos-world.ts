// The world of a seed: two control planes, three agents, PostgreSQL, Redis, a model server of known token counts behind each agent,
// a model that the agents start themselves, a hub and a receiver of webhooks, with a link between every pair that can be cut.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, vi } from "vitest";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { type FakeHub, startHub } from "../../fakes/hub.ts";
import { type Exit, endInstances, type Stack, startStack } from "../../fakes/processes.ts";
import { hasRedis, startRedis, type TestRedis } from "../../fakes/redis.ts";
import { mountSmallDisk, type SmallDisk } from "../../fakes/small-disk.ts";
import { startTcpLink, type TcpLink } from "../../fakes/tcp-link.ts";
import { startWebhookReceiver, type WebhookReceiver } from "../../fakes/webhook-receiver.ts";
import { unexpectedEnd } from "./exits.ts";
import type { Need } from "./schedule.ts";

/** Clocks of hosts and slices: of a host's lease of 20 s, and of the 60 s after which it is lost. */
export const clockScale = 0.2;
/** Nano-USD of one output token; prompts are free. */
export const tokenPrice = 20_000;
/** Credit of the account that runs out of money: enough for a few dozen requests. */
export const purseUsd = 0.02;
const tokens = 60;
const repo = "acme/tiny-GGUF";
const fixtures = join(import.meta.dirname, "../../fixtures/nvidia-smi");
const patient = { timeout: 150_000, interval: 100 };

export interface Account {
  readonly uid: string;
  readonly apiKey: string;
}

export interface ChaosWorld {
  readonly stack: Stack;
  readonly engine: FakeEngine;
  readonly hub: FakeHub;
  readonly receiver: WebhookReceiver;
  readonly redis: TestRedis | undefined;
  readonly disk: SmallDisk | undefined;
  readonly links: ReadonlyMap<string, TcpLink>;
  readonly has: ReadonlySet<Need>;
  readonly admin: Account;
  /** Has `purseUsd` and no more. */
  readonly purse: Account;
  /** Model behind agent `n`, from 1, with the fake engine. */
  modelAt(n: number): string;
  /** Model whose instances agents start. */
  readonly tinyModel: string;
  readonly tinyDeployment: string;
  /** Output tokens of each attempt that an engine ran, by its own book; keys are `<request id>.<attempt>`. */
  ran(): ReadonlyMap<string, number>;
  /** Processes that a fault has killed and will start again. */
  readonly down: Set<string>;
  /** Agents that will kill themselves at their next usage record. */
  readonly armed: Set<string>;
  /** Ends of processes that no fault caused, in words. */
  readonly crashes: string[];
  /** Metrics pages that are read beside those of the processes. */
  readonly morePages: string[];
  /** Deployments that were made while downloads failed. */
  readonly downloads: string[];
  /** Where control planes call the receiver. */
  readonly webhookUrl: string;
  /** File whose existence kills agent `n` after its next record. */
  fuse(n: number): string;
  /** Steps the wall clock of a process, such as `agent-1`. */
  stepClock(name: string, ms: number): void;
  /** Fault of the nvidia-smi of agent `n`, as its stand-in calls it; empty: none. */
  breakNvidiaSmi(n: number, fault: string): void;
  /** Another agent with the folder of agent `n`, as after a copy of its disk. */
  startClone(n: number): Promise<{ stop(): Promise<void> }>;
  stop(): Promise<void>;
}

/** Everything that was started so far, ended in the reverse order. */
class Ends {
  readonly #ends: (() => unknown)[] = [];
  add<T>(made: T, end: (made: T) => unknown): T {
    this.#ends.push(() => end(made));
    return made;
  }
  async run(): Promise<void> {
    for (const end of this.#ends.splice(0).reverse()) await end();
  }
}

export async function startChaosWorld(): Promise<ChaosWorld> {
  const ends = new Ends();
  try {
    return await build(ends);
  } catch (error) {
    await ends.run();
    throw error;
  }
}

async function build(ends: Ends): Promise<ChaosWorld> {
  const folder = ends.add(mkdtempSync(join(tmpdir(), "stoker-chaos-")), (path) =>
    rmSync(path, { recursive: true, force: true, maxRetries: 5 }),
  );
  const models = [1, 2, 3].map((n) => `fake/model-${n}`);
  const engine = ends.add(await startFakeEngine({ models, tokens, tokenMs: 2, logLimit: 1_000_000 }), (one) =>
    one.close(),
  );
  const bookFile = join(folder, "tiny-book");
  writeFileSync(bookFile, "");
  const files = { "tiny.Q4_K_M.gguf": Buffer.from(`GGUF tiny\n${JSON.stringify({ bookFile }).padEnd(200_000)}`) };
  const hub = ends.add(await startHub({ repo, files }), (one) => one.close());
  const receiver = ends.add(await startWebhookReceiver(), (one) => one.close());
  const redis = hasRedis ? ends.add(await startRedis(), (one) => one.stop()) : undefined;
  const disk = ends.add(mountSmallDisk(48, "a full disk of an agent (F8)"), (one) => one?.unmount());
  const links = new Map<string, TcpLink>();
  const link = async (port: number, from: string, to: string) => {
    const made = ends.add(await startTcpLink(port), (one) => one.close());
    links.set(`${from}>${to}`, made);
    return made.port;
  };
  const portOf = (url: string) => Number(new URL(url).port);
  const redisPorts = redis
    ? [
        await link(portOf(redis.url), "control-plane-1", "redis"),
        await link(portOf(redis.url), "control-plane-2", "redis"),
      ]
    : [];
  const webhookUrl = `http://127.0.0.1:${await link(portOf(receiver.origin), "control-plane", "receiver")}/hook`;
  const at = (name: string) => join(folder, name);
  makeMachine(at("bin"), at("machine"));
  const clock = (name: string): Record<string, string> => {
    writeFileSync(at(`clock-${name}`), "0");
    const preload = pathToFileURL(join(import.meta.dirname, "../../fakes/stepped-clock.ts"));
    return { NODE_OPTIONS: `--import=${preload}`, STOKER_TEST_CLOCK_FILE: at(`clock-${name}`) };
  };
  const armed = new Set<string>();
  const crashes: string[] = [];
  const onExit = (exit: Exit) => {
    const isArmed = exit.signal === "SIGKILL" && exit.sent === undefined && armed.delete(exit.name);
    const what = unexpectedEnd(exit, isArmed);
    if (what) crashes.push(what);
  };
  const agentEnv = (n: number) => ({
    ...clock(`agent-${n}`),
    STUB_FAULT_FILE: at(`gpu-fault-${n}`),
    STOKER_FAULT: `after_record@${at(`fuse-${n}`)}`,
    // A small disk has no space for weights, and a deployment that needs it fails for good.
    STOKER_MODELS_DIR: at(`models-${n}`),
  });
  const stack = ends.add(
    await startStack({
      isDatabaseOnDisk: true,
      replicas: 2,
      agents: 3,
      link,
      onExit,
      controlPlaneEnv: {
        STOKER_HOST_CLOCKS: String(clockScale),
        STOKER_SLICE_CLOCKS: String(clockScale),
        STOKER_WEBHOOK_CLOCKS: String(clockScale),
        STOKER_WEBHOOK_ALLOW_PRIVATE: "1",
        HF_HUB_OFFLINE: "1",
      },
      replicaEnv: (n) => ({
        ...clock(`control-plane-${n}`),
        ...(redisPorts.length > 0 ? { REDIS_URL: `redis://127.0.0.1:${redisPorts[n - 1]}` } : {}),
      }),
      agentEnv: {
        PATH: `${at("bin")}:${process.env["PATH"]}`,
        STUB_MACHINE: at("machine"),
        HF_ENDPOINT: hub.url,
        STOKER_RUNTIME_ENTRY: join(import.meta.dirname, "../../fakes/tiny-runtime.ts"),
      },
      eachAgentEnv: agentEnv,
      ...(disk ? { agentFolderOf: (n: number) => (n === 1 ? join(disk.folder, "agent") : undefined) } : {}),
    }),
    (one) => one.stop(),
  );
  await serveFakeModels(stack, engine, models, link);
  const { model: tinyModel, deployId: tinyDeployment } = await deployTiny(stack);
  const me = await stack.call("GET", "/v1/me");
  const admin = { uid: me.body.uid as string, apiKey: stack.apiKey };
  const made = await stack.call("POST", "/v1/admin/accounts", {
    email: "purse@example.com",
    display_name: "purse",
    credit_usd: purseUsd,
  });
  expect(made.status, JSON.stringify(made.body)).toBeLessThan(300);
  const has = new Set<Need>([...(redis ? ["redis" as const] : []), ...(disk ? ["small-disk" as const] : [])]);
  return {
    stack,
    engine,
    hub,
    receiver,
    redis,
    disk,
    links,
    has,
    admin,
    tinyModel,
    tinyDeployment,
    webhookUrl,
    ran: () => ranBy(engine, bookFile),
    armed,
    crashes,
    down: new Set(),
    downloads: [],
    morePages: [],
    purse: { uid: made.body.uid, apiKey: made.body.api_key },
    modelAt: (n) => models[n - 1] as string,
    fuse: (n) => at(`fuse-${n}`),
    stepClock: (name, ms) => writeFileSync(at(`clock-${name}`), String(ms)),
    breakNvidiaSmi: (n, fault) => writeFileSync(at(`gpu-fault-${n}`), `${fault}\n`),
    startClone: (n) => startClone(stack, n, at(`clone-${n}`), agentEnv(n)),
    stop: () => ends.run(),
  };
}

function ranBy(engine: FakeEngine, bookFile: string): ReadonlyMap<string, number> {
  const ran = new Map(engine.log.map(({ id, sentTokens }) => [id, sentTokens]));
  for (const line of readFileSync(bookFile, "utf8").split("\n")) {
    const [id = "", tokens] = line.split(" ");
    if (tokens !== undefined) ran.set(id, Number(tokens));
  }
  return ran;
}

/** An nvidia-smi of one GPU that nobody uses. */
function makeMachine(bin: string, machine: string): void {
  mkdirSync(bin);
  symlinkSync(join(fixtures, "nvidia-smi"), join(bin, "nvidia-smi"));
  cpSync(join(fixtures, "l4"), machine, { recursive: true });
  const query = join(machine, "query.csv");
  writeFileSync(query, readFileSync(query, "utf8").replace("23034, 17210, 5224,", "23034, 310, 22724,"));
}

async function serveFakeModels(
  stack: Stack,
  engine: FakeEngine,
  models: readonly string[],
  link: (port: number, from: string, to: string) => Promise<number>,
): Promise<void> {
  const { nodes } = (await stack.call("GET", "/v1/admin/nodes")).body;
  for (const [i, name] of models.entries()) {
    const host = nodes.find((node: { name: string }) => node.name === `node-${i + 1}`);
    const port = await link(engine.port, `agent-${i + 1}`, "engine");
    const made = await stack.call("POST", "/v1/admin/external", {
      name,
      url: `http://127.0.0.1:${port}`,
      max_batch_size: 64,
      host_id: host.node_id,
    });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    await offer(stack, name, made.body.deploy_id);
  }
}

/** Every control plane has its price when it returns. */
async function offer(stack: Stack, model: string, deployId: string): Promise<void> {
  const offered = await stack.call("PUT", `/v1/admin/models/${model}`, {
    deploy_id: deployId,
    description: "",
    pricing: { input: 0, cached_input: 0, output: tokenPrice / 1_000 },
  });
  expect(offered.status, JSON.stringify(offered.body)).toBe(200);
  const request = { model, prompt: "hello", max_tokens: 1 };
  for (const at of stack.controlPlanes)
    await vi.waitFor(async () => {
      const { status, body } = await stack.call("POST", "/v1/completions", request, {}, at);
      expect(status, JSON.stringify(body)).toBe(200);
      expect(body.usage.estimated_cost).toBeGreaterThan(0);
    }, patient);
}

/** Two instances on two of the three hosts. */
async function deployTiny(stack: Stack): Promise<{ model: string; deployId: string }> {
  const model = "admin/tiny";
  const deployId = await deployFromHub(stack, model, 2);
  await vi.waitFor(async () => {
    const { body } = await stack.call("GET", `/deploy/${deployId}`);
    expect(body).toMatchObject({ status: "deployed", instances: { running: 2 } });
  }, patient);
  await offer(stack, model, deployId);
  return { model, deployId };
}

/** Returns its id. */
export async function deployFromHub(stack: Stack, name: string, instances: number): Promise<string> {
  const made = await stack.call("POST", "/deploy/llm", {
    model_name: name,
    gpu: "L4-24GB",
    max_batch_size: 4,
    hf: { repo },
    settings: { min_instances: instances, max_instances: instances },
  });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  return made.body.deploy_id;
}

async function startClone(stack: Stack, n: number, folder: string, env: Readonly<Record<string, string>>) {
  const original = stack.agentFolder(n);
  // Its processes are not on the other machine.
  const filter = (path: string) => !path.startsWith(join(original, "instances"));
  cpSync(original, folder, { recursive: true, filter });
  const clone = stack.agentLike(n, {
    ...env,
    STOKER_AGENT_DATA: folder,
    STOKER_INGRESS_PORT: "0",
    STOKER_ADVERTISE: "",
  });
  clone.start();
  return {
    async stop() {
      await clone.kill9();
      endInstances(folder);
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
