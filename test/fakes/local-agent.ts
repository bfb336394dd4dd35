// A real agent process that obeys a file instead of a control plane, with the tiny runtime as its model server.
import { type ChildProcess, spawn } from "node:child_process";
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InstanceSpec } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { randomId } from "../../proto/ids.ts";
import { signTicket, type Ticket } from "../../proto/ticket.ts";
import { programs } from "./programs.ts";
import { atWorkerEnd } from "./worker-end.ts";

const root = join(import.meta.dirname, "../..");

export interface LocalAgent {
  readonly folder: string;
  readonly pid: number;
  /** Desired state of the next start. */
  want(instances: readonly InstanceSpec[], tombstones?: readonly string[]): void;
  /** A specification that the tiny runtime serves; `script` as in tiny-runtime.ts. */
  spec(over?: InstanceSpec, script?: object): InstanceSpec;
  /** `through`: a command that becomes the agent, whose command line it is given. */
  start(env?: Readonly<Record<string, string>>, through?: readonly string[]): void;
  kill(signal: NodeJS.Signals): Promise<number | null>;
  /** Ends the agent's stdin, as the death of its supervisor does; resolves with its exit code. */
  orphan(): Promise<number | null>;
  /** A completion through the data path; undefined while nobody answers. */
  complete(instanceId: string): Promise<{ status: number; body: { pid?: number } } | undefined>;
  /** Pids of model servers, by the driver's own records. */
  pids(): readonly number[];
  ports(): { ingress_port: number; metrics_port: number; host_id: string };
  log(): string;
  clean(): Promise<void>;
}

export function makeLocalAgent(): LocalAgent {
  const folder = mkdtempSync(join(tmpdir(), "stoker-agent-"));
  const data = join(folder, "data");
  const desired = join(folder, "desired.json");
  const logFile = join(folder, "agent.log");
  mkdirSync(data);
  writeFileSync(desired, "{}");
  let child: ChildProcess | undefined;
  let generation = 0;

  const exited = (one: ChildProcess) =>
    new Promise<number | null>((resolve) => {
      if (one.exitCode !== null || one.signalCode !== null) resolve(one.exitCode);
      else one.once("exit", (code) => resolve(code));
    });
  const readJson = (path: string) => JSON.parse(readFileSync(path, "utf8"));
  const pids = () => {
    const base = join(data, "instances");
    if (!existsSync(base)) return [];
    return readdirSync(base)
      .map((name) => join(base, name, "process.json"))
      .filter(existsSync)
      .map((path) => Number(readJson(path).pid));
  };
  const clear = (maxRetries: number) => {
    for (const pid of pids()) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // Gone already.
      }
    }
    rmSync(folder, { recursive: true, force: true, maxRetries });
  };
  const forget = atWorkerEnd(() => {
    child?.kill("SIGKILL");
    clear(3);
  });
  return {
    folder,
    get pid() {
      return child?.pid ?? 0;
    },
    want(instances, tombstones = []) {
      const state = { nodeEpoch: "1", generation: String(++generation), instances, tombstones };
      writeFileSync(desired, JSON.stringify(state));
    },
    spec(over = {}, script = {}) {
      const instanceId = over.instanceId ?? randomId<"instance">(16);
      const model = join(folder, `${instanceId}.gguf`);
      // A container is given the model and nothing beside it.
      writeFileSync(model, `GGUF tiny\n${JSON.stringify(script)}`, { mode: 0o644 });
      writeFileSync(`${model}.script.json`, JSON.stringify(script));
      return {
        deployId: "deployment",
        generation: 1,
        engine: "stoker",
        servedModelName: "tiny/model",
        task: "text-generation",
        weights: { localPath: model },
        maxBatchSize: 2,
        cpus: 1,
        ...over,
        instanceId,
      };
    },
    start(env = {}, through = []) {
      const log = createWriteStream(logFile, { flags: "a" });
      const line = [...through, process.execPath, "--disable-warning=ExperimentalWarning", programs.agent];
      const [command = process.execPath, ...args] = line;
      child = spawn(command, args, {
        cwd: root,
        stdio: ["pipe", "pipe", "pipe"],
        env: {
          ...process.env,
          STOKER_AGENT_DATA: data,
          STOKER_LOCAL_DESIRED: desired,
          STOKER_DRIVER: "process",
          STOKER_RUNTIME_ENTRY: join(root, "test/fakes/tiny-runtime.ts"),
          STOKER_NODE_NAME: "local",
          STOKER_DRAIN_MS: "3000",
          ...env,
        },
      });
      child.stdin?.on("error", () => {});
      child.stdout?.pipe(log, { end: false });
      child.stderr?.pipe(log, { end: false });
    },
    async kill(signal) {
      if (!child) return null;
      const end = exited(child);
      child.kill(signal);
      return end;
    },
    async orphan() {
      if (!child) return null;
      const end = exited(child);
      child.stdin?.end();
      return end;
    },
    async complete(instanceId) {
      if (!existsSync(join(data, "agent.json"))) return undefined;
      const { ingress_port } = readJson(join(data, "agent.json"));
      const answer = await fetch(`http://127.0.0.1:${ingress_port}/i/${instanceId}/v1/completions`, {
        method: "POST",
        headers: { "x-stoker-ticket": localTicket(data, instanceId), "content-type": "application/json" },
        body: JSON.stringify({ model: "tiny/model", prompt: "hello" }),
        signal: AbortSignal.timeout(10_000),
      }).catch(() => undefined);
      return answer && { status: answer.status, body: await answer.json() };
    },
    pids,
    ports: () => readJson(join(data, "agent.json")),
    log: () => (existsSync(logFile) ? readFileSync(logFile, "utf8") : ""),
    async clean() {
      if (child && child.exitCode === null && child.signalCode === null) {
        const end = exited(child);
        child.kill("SIGKILL");
        await end;
      }
      clear(10);
      forget();
    },
  };
}

/** Admits one request at an agent without a control plane, whose data folder this is. */
export function localTicket(dataDir: string, instanceId: string, over: Partial<Ticket> = {}): string {
  return signTicket(
    {
      requestId: randomId<"request">(24),
      attempt: 1,
      hostId: "host",
      instanceId,
      deployId: "deployment",
      admittedAtMs: Date.now(),
      expiresAtMs: Date.now() + 30_000,
      account: "u:0000000000000",
      keyId: "key",
      replicaId: "replica",
      model: "tiny/model",
      leaseIds: [],
      hold: "0",
      permits: 1,
      inputTokensBound: 10,
      inputTokensEstimate: 3,
      // The engine of the bench sends 64.
      maxTokens: 64,
      stream: false,
      usage: "merge",
      rates: ["0", "0", "0"],
      priceVersion: 1,
      ...over,
    },
    Buffer.from(readFileSync(join(dataDir, "local-ticket.key"), "utf8").trim(), "base64"),
  );
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
