// The world of a seed: two control planes, three agents, PostgreSQL, Redis, a model server of known token counts behind each agent,
// a model that the agents start themselves, a hub and a receiver of webhooks, with a link between every pair that can be cut.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, vi } from "vitest";
import { createFirewall } from "../../../agent/docker/firewall.ts";
import { modelRules } from "../../../agent/docker/model-firewall.ts";
import { type PrivateEngine, privateEngine } from "../../docker/private-engine.ts";
import { importTinyImage } from "../../docker/tiny-image.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { type FakeHub, startHub } from "../../fakes/hub.ts";
import { type Exit, endInstances, runningInstances, type Stack, startStack } from "../../fakes/processes.ts";
import { hasRedis, startRedis, type TestRedis } from "../../fakes/redis.ts";
import { mountSmallDisk, type SmallDisk } from "../../fakes/small-disk.ts";
import { startTcpLink, type TcpLink } from "../../fakes/tcp-link.ts";
import { startWebhookReceiver, type WebhookReceiver } from "../../fakes/webhook-receiver.ts";
import { unexpectedEnd } from "./exits.ts";
import { agentPoints, controlPlanePoints, isWide, mayHaveRedis, type Need } from "./schedule.ts";

/** Clocks of hosts and slices: of a host's lease of 20 s, and of the 60 s after which it is lost. */
export const clockScale = 0.2;
/** Nano-USD of one output token; prompts are free. */
export const tokenPrice = 20_000;
/** Credit of the account that runs out of money: enough for a few dozen requests. */
export const purseUsd = 0.02;
const tokens = 60;
/** Runs in a container, whose book nobody can read. */
export const boxedModel = "admin/boxed";
const repo = "acme/tiny-GGUF";
const image = "stoker-tiny-runtime:chaos";
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
  /** Engine of agent 3, which starts processes where there is none. */
  readonly docker: PrivateEngine | undefined;
  readonly links: ReadonlyMap<string, TcpLink>;
  readonly has: ReadonlySet<Need>;
  readonly admin: Account;
  /** Has `purseUsd` and no more. */
  readonly purse: Account;
  /** Model behind agent `n`, from 1, with the fake engine. */
  modelAt(n: number): string;
  readonly tinyDeployment: string;
  /** Output tokens of each attempt that an engine ran, by its own book; keys are `<request id>.<attempt>`. Without those in containers. */
  ran(): ReadonlyMap<string, number>;
  /** Models of both drivers whose instances agents start. */
  readonly ownModels: readonly string[];
  /** Instances whose process or container runs. Rejects while the engine of containers is down. */
  running(): Promise<string[]>;
  /** Processes that a fault has killed and will start again. */
  readonly down: Set<string>;
  /** Processes that will kill themselves at a point. */
  readonly armed: Set<string>;
  /** Ends of processes that no fault caused, in words. */
  readonly crashes: string[];
  /** Metrics pages that are read beside those of the processes. */
  readonly morePages: string[];
  /** Deployments that were made while downloads failed. */
  readonly downloads: string[];
  /** Where control planes call the receiver. */
  readonly webhookUrl: string;
  /** File whose existence kills the process `name`, such as `agent-1`, at its next point. */
  fuse(name: string, point: string): string;
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

export async function startChaosWorld(seed: number): Promise<ChaosWorld> {
  const ends = new Ends();
  try {
    return await build(ends, seed);
  } catch (error) {
    await ends.run();
    throw error;
  }
}

/** Undefined, told aloud, where this machine cannot start one. */
async function startDocker(ends: Ends): Promise<PrivateEngine | undefined> {
  if (process.getuid?.() !== 0 || spawnSync("dockerd", ["--version"]).status !== 0) {
    console.warn("NOT PROVEN here, since only root can start a Docker engine and there must be one: F6 and containers");
    return undefined;
  }
  const engine = ends.add(privateEngine(), (one) => one.close());
  await engine.start();
  importTinyImage(image, { engine: engine.address });
  return engine;
}

async function build(ends: Ends, seed: number): Promise<ChaosWorld> {
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
  const redis = hasRedis && mayHaveRedis(seed) ? ends.add(await startRedis(), (one) => one.stop()) : undefined;
  const disk = ends.add(mountSmallDisk(48, "a full disk of an agent (F8)"), (one) => one?.unmount());
  const links = new Map<string, TcpLink>();
  const docker = isWide(seed) ? await startDocker(ends) : undefined;
  const link = async (target: number | string, from: string, to: string) => {
    const made = ends.add(await startTcpLink(target), (one) => one.close());
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
  const fuseOf = (name: string, point: string) => at(`fuse-${name}-${point}`);
  const faultsOf = (name: string, points: readonly string[]) =>
    points.map((point) => `${point}@${fuseOf(name, point)}`).join(",");
  const armed = new Set<string>();
  const crashes: string[] = [];
  const onExit = (exit: Exit) => {
    const isArmed =
      exit.signal === "SIGKILL" &&
      exit.sent === undefined &&
      armed.delete(exit.name === "control-plane" ? "control-plane-1" : exit.name);
    const what = unexpectedEnd(exit, isArmed);
    if (what) crashes.push(what);
  };
  const dockerEnv: Readonly<Record<string, string>> = docker
    ? {
        STOKER_DRIVER: "docker",
        STOKER_RUNTIME_IMAGE: image,
        STOKER_CONTAINER_SUBNET: "10.239.0.0/20",
        DOCKER_HOST: `tcp://127.0.0.1:${await link(new URL(docker.address).pathname, "agent-3", "docker")}`,
        // The engine has no nvidia runtime: a GPU that needs none.
        PATH: process.env["PATH"] ?? "",
        STOKER_GPUS: "1",
      }
    : {};
  const agentEnv = (n: number): Readonly<Record<string, string>> => ({
    ...clock(`agent-${n}`),
    STUB_FAULT_FILE: at(`gpu-fault-${n}`),
    STOKER_FAULT: faultsOf(`agent-${n}`, agentPoints),
    // A small disk has no space for weights, and a deployment that needs it fails for good.
    STOKER_MODELS_DIR: at(`models-${n}`),
    ...(n === 3 ? dockerEnv : {}),
  });
  const firewalls: string[] = [];
  ends.add(firewalls, (hosts) => Promise.all(hosts.map((host) => createFirewall(modelRules(host)).remove())));
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
        STOKER_FAULT: faultsOf(`control-plane-${n}`, controlPlanePoints),
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
  const { model: tinyModel, deployId: tinyDeployment } = await deployTiny(stack, "admin/tiny", "L4-24GB", 2);
  const ownModels = [tinyModel];
  if (docker) {
    // An agent that was killed takes no rules out.
    firewalls.push(JSON.parse(readFileSync(join(stack.agentFolder(3), "agent.json"), "utf8")).host_id);
    ownModels.push((await deployTiny(stack, boxedModel, "other", 1)).model);
  }
  const me = await stack.call("GET", "/v1/me");
  const admin = { uid: me.body.uid as string, apiKey: stack.apiKey };
  const made = await stack.call("POST", "/v1/admin/accounts", {
    email: "purse@example.com",
    display_name: "purse",
    credit_usd: purseUsd,
  });
  expect(made.status, JSON.stringify(made.body)).toBeLessThan(300);
  const has = new Set<Need>([
    ...(redis ? ["redis" as const] : []),
    ...(disk ? ["small-disk" as const] : []),
    ...(docker ? ["docker" as const] : []),
    ...(isWide(seed) ? ["points" as const] : []),
    ...(redis ? [] : ["job-tables" as const]),
  ]);
  return {
    ...{ stack, engine, hub, receiver, redis, disk, docker, links, has, admin, tinyDeployment, webhookUrl },
    ownModels,
    running: async () => [
      ...[1, 2, 3].flatMap((n) => runningInstances(stack.agentFolder(n))),
      ...(docker ? await containersOf(docker) : []),
    ],
    ran: () => ranBy(engine, bookFile),
    armed,
    crashes,
    down: new Set(),
    downloads: [],
    morePages: [],
    purse: { uid: made.body.uid, apiKey: made.body.api_key },
    modelAt: (n) => models[n - 1] as string,
    fuse: fuseOf,
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

/** Two instances are on two hosts. */
async function deployTiny(stack: Stack, model: string, gpu: string, instances: number) {
  const deployId = await deployFromHub(stack, model, instances, gpu);
  await vi.waitFor(async () => {
    const { body } = await stack.call("GET", `/deploy/${deployId}`);
    expect(body).toMatchObject({ status: "deployed", instances: { running: instances } });
  }, patient);
  await offer(stack, model, deployId);
  return { model, deployId };
}

/** Returns its id. */
export async function deployFromHub(stack: Stack, name: string, instances: number, gpu: string): Promise<string> {
  const made = await stack.call("POST", "/deploy/llm", {
    model_name: name,
    gpu,
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

/** Instances of running containers, by the label that the agent gives them. */
function containersOf(engine: PrivateEngine): Promise<string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string[]>();
  const filters = encodeURIComponent(JSON.stringify({ label: ["stoker.instance"], status: ["running"] }));
  const asked = request({ socketPath: new URL(engine.address).pathname, path: `/containers/json?filters=${filters}` });
  asked.setTimeout(2_000, () => asked.destroy(new Error("the Docker engine does not answer")));
  asked.on("error", reject);
  asked.on("response", async (answer) => {
    try {
      const parts: Buffer[] = [];
      for await (const part of answer) parts.push(part as Buffer);
      const found = JSON.parse(Buffer.concat(parts).toString()) as { readonly Labels: Record<string, string> }[];
      resolve(found.map(({ Labels }) => Labels["stoker.instance"] ?? ""));
    } catch (error) {
      reject(error);
    }
  });
  asked.end();
  return promise;
}
