// Processes of one machine. Stopped in reverse order: agents drain first, PostgreSQL stops last.
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { join, resolve } from "node:path";
import { isAlive, type ProcessIdentity, sendSignal } from "../../agent/process/process-identity.ts";
import { type Api, ownApi } from "./api.ts";
import { type Child, endProcess, keepAlive } from "./child.ts";
import { type AgentPlaces, agentEnvironment, controlPlaneEnvironment, controlPlaneName } from "./environment.ts";
import type { UpOptions } from "./options.ts";
import { innerPort } from "./ports.ts";
import { startPostgres } from "./postgres.ts";
import { answersOk, untilReady } from "./ready.ts";
import type { Screen } from "./screen.ts";

const root = resolve(import.meta.dirname, "../..");
const controlPlaneLimitMs = 60_000;

// One V8 helper thread per remaining core. V8's default of four slows the serving threads on small machines.
const helpers = Math.min(4, Math.max(1, availableParallelism() - 1));
const program = (path: string): string[] => [
  "--disable-warning=ExperimentalWarning",
  `--v8-pool-size=${helpers}`,
  // Half of V8's default: the young generation then takes 64 MiB at most. docs/BENCH.md has the cost.
  "--max-semi-space-size=32",
  join(root, path),
];

type StackOptions = Pick<UpOptions, "dataDir" | "port" | "host" | "rpcPort" | "replicas" | "workers" | "joins">;

export function createStack(options: StackOptions, env: NodeJS.ProcessEnv, screen: Screen) {
  const { dataDir, host } = options;
  let postgres: Child | undefined;
  const controlPlanes: Child[] = [];
  const agents: Child[] = [];
  const controls: string[] = [];
  const own = ownApi(env["STOKER_TLS_CERT"]);

  return {
    async startDatabase(signal: AbortSignal) {
      if (env["DATABASE_URL"]) return env["DATABASE_URL"];
      const step = screen.step("PostgreSQL");
      const started = await startPostgres(dataDir, step, screen.warn, (child) => (postgres = child), signal);
      step.done();
      return started.databaseUrl;
    },
    /** Starts control planes one by one, because the first migrates and initialises the database. */
    async startControlPlanes(databaseUrl: string, signal: AbortSignal) {
      const step = screen.step("Control plane");
      for (let number = 1; number <= options.replicas; number += 1) {
        const port = options.port + number - 1;
        const known = options.rpcPort === undefined ? undefined : options.rpcPort + number - 1;
        const rpcPort = known ?? (await innerPort(dataDir, number === 1 ? "rpc" : `rpc-${number}`));
        const title = options.replicas === 1 ? "The control plane" : `Control plane ${number}`;
        const child = keepAlive(
          {
            name: controlPlaneName(number),
            title,
            command: process.execPath,
            args: program("control-plane/main.ts"),
            env: controlPlaneEnvironment(env, {
              dataDir,
              host,
              port,
              rpcPort,
              databaseUrl,
              number,
              workers: options.workers,
              joins: options.joins,
            }),
            stopSteps: [
              { signal: "SIGTERM", waitMs: 10_000 },
              { signal: "SIGKILL", waitMs: 2_000 },
            ],
          },
          dataDir,
          screen.warn,
        );
        controlPlanes.push(child);
        controls.push(`${nearAddress(host)}:${rpcPort}`);
        const wait = { child, title, dataDir, limitMs: controlPlaneLimitMs, signal };
        await untilReady(wait, () => answersOk(own, `${own.scheme}://${nearAddress(host)}:${port}/readyz`, signal));
      }
      step.done(options.replicas === 1 ? undefined : `${options.replicas} ready`);
    },
    startAgents(driver: AgentPlaces["driver"], count: number, api: Api) {
      const machine = { cores: availableParallelism(), memoryBytes: totalmem() };
      for (let number = 1; number <= count; number += 1) {
        const folder = join(dataDir, "agents", String(number));
        mkdirSync(folder, { recursive: true, mode: 0o700 });
        const title = count === 1 ? "The agent" : `Agent ${number}`;
        agents.push(
          keepAlive(
            {
              name: `agent-${number}`,
              title,
              command: process.execPath,
              args: program("agent/main.ts"),
              repair: createRejoin({ api, folder, title, say: screen.warn }),
              env: agentEnvironment(env, { machine, dataDir, controls, driver, number, agents: count }),
              stopSteps: [
                { signal: "SIGTERM", waitMs: 18_000 },
                { signal: "SIGKILL", waitMs: 2_000 },
              ],
            },
            dataDir,
            screen.warn,
          ),
        );
      }
      return agents;
    },
    /** Stops all processes within the sum of their stop steps (under 40 s). */
    async stop() {
      await Promise.all(agents.map((agent) => agent.stop()));
      await endModelServers(dataDir);
      await Promise.all(controlPlanes.map((child) => child.stop()));
      await postgres?.stop();
    },
    /** Kills all processes without draining. */
    kill() {
      for (const child of [...agents, ...controlPlanes, postgres]) child?.kill();
      killModelServers(dataDir);
    },
  };
}

/** Address by which this machine reaches a listener on `host`. */
export const nearAddress = (host: string): string => (host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host);

/** Running model servers of this data folder. */
export function runningModelServers(dataDir: string): readonly ProcessIdentity[] {
  return globSync("*/**/process.json", { cwd: join(dataDir, "agents") }).flatMap((file) => {
    const known = readIdentity(join(dataDir, "agents", file));
    return known && isAlive(known) ? [known] : [];
  });
}

async function endModelServers(dataDir: string): Promise<void> {
  const steps = [
    { signal: "SIGTERM", waitMs: 3_000 },
    { signal: "SIGKILL", waitMs: 2_000 },
  ] as const;
  await Promise.all(runningModelServers(dataDir).map((server) => endProcess(server, steps)));
}

function killModelServers(dataDir: string): void {
  for (const server of runningModelServers(dataDir)) sendSignal(server, "SIGKILL");
}

function readIdentity(path: string): ProcessIdentity | undefined {
  try {
    const { pid, startedAt } = JSON.parse(readFileSync(path, "utf8")) as Partial<ProcessIdentity>;
    return typeof pid === "number" && typeof startedAt === "string" ? { pid, startedAt } : undefined;
  } catch {
    return undefined;
  }
}

interface AgentToRejoin {
  readonly api: Api;
  readonly folder: string;
  readonly title: string;
  readonly say: (line: string) => void;
}

/** Minimum interval between tokens: an earlier failure has another cause. */
const minIntervalMs = 60_000;
const tokenTtlSeconds = 300;

/** Error for a new key of a known host. A revoked host gets another error and needs an operator. */
const otherKey = /joined with another key/;

/**
 * An agent whose folder was emptied has a new key, but its host accepts only the old one. Returns a function that writes a join token into the agent's folder. It
 * returns false if an operator must act.
 */
function createRejoin({ api, folder, title, say }: AgentToRejoin): (sentence: string) => Promise<boolean> {
  let lastMs = Number.NEGATIVE_INFINITY;
  return async (sentence) => {
    const hasIdentity = existsSync(join(folder, "identity", "certificate.json"));
    if (hasIdentity || !otherKey.test(sentence) || performance.now() - lastMs < minIntervalMs) return false;
    lastMs = performance.now();
    const hostId = readFileSync(join(folder, "state.db.host-id"), "utf8").trim();
    const { body: fleet } = await api.call("GET", "/v1/admin/nodes");
    const host = fleet?.nodes?.find((node: { node_id: string }) => node.node_id === hostId);
    if (host === undefined) return false;
    const token = await api.call("POST", "/v1/admin/nodes/tokens", {
      node_id: hostId,
      pool: host.pool,
      ttl_seconds: tokenTtlSeconds,
    });
    if (typeof token.body?.token !== "string") return false;
    writeFileSync(join(folder, "join.token"), `${token.body.token}\n`, { mode: 0o600 });
    say(
      `${title} has lost its identity: ${folder} was emptied. It joins again as host ${hostId}. Usage that it had not sent is lost.`,
    );
    return true;
  };
}
