// Real control plane and agent processes on a real PostgreSQL, each of which a test may kill and start again by itself
// (under `up` a supervisor would restart them at once). Logs go to files in the stack's folder and are shown on failure.
import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { compileCache } from "./compile-cache.ts";
import { freePort } from "./free-port.ts";
import { startPostgres, type TestPostgres } from "./postgres.ts";
import { programs } from "./programs.ts";
import { atWorkerEnd } from "./worker-end.ts";

const startLimitMs = 150_000;
const root = join(import.meta.dirname, "../..");

/** How a process ended. */
export interface Exit {
  /** Name of its part, such as `control-plane-2`, or `control-plane` for the first, or `agent-1`. */
  readonly name: string;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Signal that this part's `kill9` or `stop` sent before. */
  readonly sent: NodeJS.Signals | undefined;
  /** End of what it wrote. */
  readonly output: string;
}

export interface Part {
  readonly pid: number;
  /** SIGKILL; returns when it is gone. */
  kill9(): Promise<void>;
  /** SIGTERM; returns its exit code. */
  stop(): Promise<number | null>;
  /** `otherProgram`: of another release; stays until the next. */
  start(env?: Readonly<Record<string, string>>, otherProgram?: string): void;
  readonly isRunning: boolean;
  log(): string;
}

export interface ControlPlane extends Part {
  readonly url: string;
  /** JSON with the ports it listens on. */
  readonly portsFile: string;
}

export interface Stack {
  /** Of the first control plane. */
  readonly url: string;
  readonly apiKey: string;
  readonly folder: string;
  readonly postgres: TestPostgres;
  readonly databaseUrl: string;
  /** Where agents reach the first control plane. */
  readonly rpcAddress: string;
  readonly secretsDir: string;
  /** The first of them. */
  readonly controlPlane: ControlPlane;
  readonly controlPlanes: readonly ControlPlane[];
  readonly agents: readonly Part[];
  agentFolder(n: number): string;
  /** An agent with another one's settings, its folder too unless `env` says otherwise. Not started, and not stopped with the stack. */
  agentLike(n: number, env: Readonly<Record<string, string>>): Part;
  /** JSON over HTTP with the admin key, to the first control plane unless `at` says otherwise. */
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
    at?: ControlPlane,
    // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects and fails where it is not there.
  ): Promise<{ status: number; body: any }>;
  stop(): Promise<void>;
}

export interface StackOptions {
  readonly agents?: number;
  /** Control planes on the one database; the agents know all of them, and come to the first one first. */
  readonly replicas?: number;
  readonly controlPlaneEnv?: Readonly<Record<string, string>>;
  /** Environment of a single replica, by number from 1, beside `controlPlaneEnv`. */
  readonly replicaEnv?: (n: number) => Readonly<Record<string, string>>;
  readonly agentEnv?: Readonly<Record<string, string>>;
  /** Environment of a single agent, by number from 1, beside `agentEnv`. */
  readonly eachAgentEnv?: (n: number) => Readonly<Record<string, string>>;
  /** Folder of a single agent's state. Default: in the stack's. */
  readonly agentFolderOf?: (n: number) => string | undefined;
  /** Returns the port through which `from` reaches the server of `to`. Default: the server's own. Control planes and agents have numbers from 1. */
  readonly link?: (port: number, from: string, to: string) => Promise<number>;
  /** Main files of another release, for the first start. */
  readonly programs?: { readonly controlPlane: string; readonly agent: string };
  /** Folder for the files of PostgreSQL. */
  readonly databaseParent?: string;
  /** Called at each end of a process, also of one that the test killed. */
  readonly onExit?: (exit: Exit) => void;
  /** Commits wait for a disk, as where the test kills servers in the middle of them. Default: memory where there is space. */
  readonly isDatabaseOnDisk?: boolean;
}

function part(
  name: string,
  program: string,
  logFile: string,
  base: Readonly<Record<string, string>>,
  onExit: (exit: Exit) => void = () => {},
): Part {
  let child: ChildProcess | undefined;
  let sent: NodeJS.Signals | undefined;
  let current = program;
  atWorkerEnd(() => child?.kill("SIGKILL"));
  const gone = (c: ChildProcess) => c.exitCode !== null || c.signalCode !== null;
  const end = async (signal: NodeJS.Signals) => {
    const c = child;
    if (!c || gone(c)) return c?.exitCode ?? null;
    const exited = new Promise<number | null>((resolve) => c.once("exit", (code) => resolve(code)));
    sent = signal;
    c.kill(signal);
    return exited;
  };
  return {
    get pid() {
      if (!child?.pid) throw new Error(`${name} was not started`);
      return child.pid;
    },
    get isRunning() {
      return child !== undefined && !gone(child);
    },
    start(env = {}, otherProgram = current) {
      current = otherProgram;
      child = spawn(process.execPath, [current], {
        cwd: root,
        // A global setup runs outside of the workers, which have it in their environment.
        env: { NODE_COMPILE_CACHE: compileCache, ...process.env, ...base, ...env },
        stdio: ["pipe", "pipe", "pipe"],
      });
      sent = undefined;
      const file = createWriteStream(logFile, { flags: "a" });
      let output = "";
      for (const stream of [child.stdout, child.stderr]) {
        stream?.pipe(file, { end: false });
        stream?.on("data", (bytes: Buffer) => {
          output = (output + bytes.toString()).slice(-4_000);
        });
      }
      const one = child;
      one.once("exit", (code, signal) => {
        const exit = { name, code, signal, sent };
        one.once("close", () => onExit({ ...exit, output }));
      });
    },
    kill9: async () => void (await end("SIGKILL")),
    stop: () => end("SIGTERM"),
    log: () => (existsSync(logFile) ? readFileSync(logFile, "utf8") : ""),
  };
}

export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-e2e-"));
  const agentFolder = (n: number) => options.agentFolderOf?.(n) ?? join(folder, "agents", String(n));
  // Model servers outlive their agent by design; a test that ends must end them too, with the processes that they started: each
  // leads a group.
  const clear = (maxRetries: number) => {
    for (let n = 1; n <= (options.agents ?? 1); n++) for (const pid of instancePids(agentFolder(n))) endProcess(-pid);
    // They are no children of ours: the last of them may write until it is gone.
    rmSync(folder, { recursive: true, force: true, maxRetries });
  };
  const forget = atWorkerEnd(() => clear(3));
  const postgres = await startPostgres({
    onDisk: options.isDatabaseOnDisk ?? false,
    ...(options.databaseParent === undefined ? {} : { parent: options.databaseParent }),
  });
  // Another release migrates its database itself.
  const databaseUrl = options.programs ? await postgres.createDatabase() : await postgres.migratedDatabase();
  const mains = options.programs ?? programs;
  const link = options.link ?? (async (port) => port);
  const databaseFor = async (from: string) => {
    const url = new URL(databaseUrl);
    url.port = String(await link(Number(url.port), from, "postgres"));
    return url.href;
  };
  const keyFile = join(folder, "admin.key");
  const rpcPorts: number[] = [];
  const controlPlanes: ControlPlane[] = [];
  for (let n = 1; n <= (options.replicas ?? 1); n += 1) {
    const [httpPort, rpcPort] = [await freePort(), await freePort()];
    rpcPorts.push(rpcPort);
    const clientPort = await link(httpPort, "client", `control-plane-${n}`);
    const name = n === 1 ? "control-plane" : `control-plane-${n}`;
    const portsFile = join(folder, `${name}.json`);
    const env = {
      STOKER_HOST: "127.0.0.1",
      STOKER_PORT: String(httpPort),
      STOKER_ADMIN_PORT: "0",
      STOKER_RPC_PORT: String(rpcPort),
      DATABASE_URL: await databaseFor(`control-plane-${n}`),
      STOKER_SECRETS_DIR: join(folder, "secrets"),
      ...(n === 1 ? { STOKER_ADMIN_KEY_FILE: keyFile } : {}),
      STOKER_PORTS_FILE: portsFile,
      ...options.controlPlaneEnv,
      ...options.replicaEnv?.(n),
    };
    const process = part(name, mains.controlPlane, join(folder, `${name}.log`), env, options.onExit);
    controlPlanes.push(Object.assign(process, { url: `http://127.0.0.1:${clientPort}`, portsFile }));
  }
  const controlPlane = controlPlanes[0] as ControlPlane;
  const agents: Part[] = [];
  const agentEnvs: Readonly<Record<string, string>>[] = [];
  const agentLike = (n: number, env: Readonly<Record<string, string>>) =>
    part(`agent-${n}`, mains.agent, join(folder, `agent-${n}.log`), { ...agentEnvs[n - 1], ...env }, options.onExit);
  for (let n = 1; n <= (options.agents ?? 1); n += 1) {
    const control: string[] = [];
    for (const [i, port] of rpcPorts.entries())
      control.push(`127.0.0.1:${await link(port, `agent-${n}`, `control-plane-${i + 1}`)}`);
    const dataPath: Record<string, string> = {};
    if (options.link) {
      const port = await freePort();
      dataPath["STOKER_INGRESS_PORT"] = String(port);
      dataPath["STOKER_ADVERTISE"] = `http://127.0.0.1:${await link(port, "control-plane", `agent-${n}`)}`;
    }
    agentEnvs.push({
      STOKER_CONTROL: control.join(","),
      STOKER_JOIN_TOKEN_FILE: join(folder, "secrets", "agent.token"),
      STOKER_AGENT_DATA: agentFolder(n),
      STOKER_NODE_NAME: `node-${n}`,
      STOKER_MODELS_DIR: join(root, ".cache", "models", "store"),
      STOKER_DRIVER: "process",
      ...dataPath,
      ...options.agentEnv,
      ...options.eachAgentEnv?.(n),
    });
    agents.push(agentLike(n, {}));
  }
  const { url } = controlPlane;
  let apiKey = "";
  const call: Stack["call"] = async (method, path, body, headers = {}, at = controlPlane) => {
    const answer = await fetch(`${at.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(120_000),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === "" ? undefined : JSON.parse(text) };
  };
  const stop = async () => {
    await Promise.all([...agents, ...controlPlanes].map((one) => one.kill9()));
    await postgres.stop();
    clear(10);
    forget();
  };
  try {
    const untilReady = async (one: ControlPlane) => {
      one.start();
      await until(async () => (await fetch(`${one.url}/readyz`)).status === 200);
      // Written after it is ready; tests read its ports there.
      await until(async () => existsSync(one.portsFile));
    };
    // The first one creates the secrets and the key; all others start at once.
    await untilReady(controlPlane);
    apiKey = readFileSync(keyFile, "utf8").trim();
    for (const agent of agents) agent.start();
    await Promise.all(controlPlanes.slice(1).map(untilReady));
    await until(async () => {
      const nodes: { state: string }[] = (await call("GET", "/v1/admin/nodes")).body.nodes;
      return nodes.filter((node) => node.state === "ready").length === agents.length;
    });
  } catch (error) {
    const logs = [...controlPlanes, ...agents].map((p) => p.log().slice(-4000)).join("\n---\n");
    await stop();
    throw new Error(`the stack did not come up:\n${logs}`, { cause: error });
  }
  const addresses = { url, databaseUrl, rpcAddress: `127.0.0.1:${rpcPorts[0]}`, secretsDir: join(folder, "secrets") };
  return {
    ...addresses,
    apiKey,
    folder,
    postgres,
    controlPlane,
    controlPlanes,
    agents,
    agentFolder,
    agentLike,
    call,
    stop,
  };
}

/** Polls until it is true. Not `vi.waitFor`, which a global setup cannot use. */
async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + startLimitMs;
  for (;;) {
    const fault = await isTrue().then(
      (is) => (is ? undefined : new Error(`not ready within ${startLimitMs / 1000} s`)),
      (error: Error) => error,
    );
    if (!fault) return;
    if (performance.now() > endMs) throw fault;
    await wait(50);
  }
}

/** Pids of the process driver's instances, from its own records. */
export function instancePids(agentFolder: string): number[] {
  return recordsOf(agentFolder, "process.json").map((record) => Number(record["pid"]));
}

/** Ids of the process driver's instances whose process runs. */
export function runningInstances(agentFolder: string): string[] {
  return recordsOf(agentFolder, "process.json")
    .filter(({ pid }) => isAlive(Number(pid)))
    .map(({ instanceId }) => String(instanceId));
}

/** Asks the first engine of the process driver for a page, or every one, with the secret that its folder holds. */
export async function askEngine(agentFolder: string, path: string): Promise<Response> {
  const [answer] = await askEngines(agentFolder, path);
  if (!answer) throw new Error("no engine listens");
  return answer;
}

export function askEngines(agentFolder: string, path: string): Promise<readonly Response[]> {
  // Our runtime reports its address; another program was given its port.
  const engines = [
    ...recordsOf(agentFolder, "address.json").map(({ port, instance_id: id }) => ({ port, id })),
    ...recordsOf(agentFolder, "process.json").map(({ port, instanceId: id }) => ({ port, id })),
  ].filter(({ port }) => port !== undefined);
  return Promise.all(
    engines.map(({ port, id }) => {
      const secret = readFileSync(join(agentFolder, "instances", String(id), "secret"), "utf8");
      return fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${secret}` } });
    }),
  );
}

function recordsOf(agentFolder: string, name: string): Record<string, unknown>[] {
  const base = join(agentFolder, "instances");
  if (!existsSync(base)) return [];
  return readdirSync(base)
    .map((folder) => join(base, folder, name))
    .filter(existsSync)
    .map((file) => JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>);
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // Ended and not yet waited for, as children of a killed agent are where nothing reaps them.
    return process.platform !== "linux" || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Ends the process driver's instances. */
export function endInstances(agentFolder: string): void {
  for (const pid of instancePids(agentFolder)) endProcess(pid);
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Already gone.
  }
}
