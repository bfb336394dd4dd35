// Environments of the child processes. Other variables pass through, such as HF_ENDPOINT, HF_TOKEN or STOKER_LOG_LEVEL.
import { delimiter, join, resolve } from "node:path";
import { slotCount } from "../../agent/fingerprint/inventory.ts";

/** Variables of `up` and the CLI that children must not inherit. */
const ownVariables = [
  "DATA",
  "MODEL",
  "AGENTS",
  "REPLICAS",
  "WORKERS",
  "EXTERNAL",
  "PORT",
  "HOST",
  "DRIVER",
  "API_KEY",
].map((name) => `STOKER_${name}`);

function passedThrough(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = { ...env };
  for (const name of ownVariables) delete kept[name];
  return kept;
}

/** Variables of every process, unless the operator sets them. docs/BENCH.md has the figures. */
const processVariables = (dataDir: string): NodeJS.ProcessEnv => ({
  // By default glibc keeps eight memory pools per core: 60 MiB more under load.
  MALLOC_ARENA_MAX: "2",
  // Compiled modules, a quarter of the processor time of a start. In the data folder, because another user must not write them.
  NODE_COMPILE_CACHE: join(dataDir, "compiled"),
});

interface ControlPlanePlaces {
  readonly dataDir: string;
  readonly host: string;
  readonly port: number;
  readonly rpcPort: number;
  readonly databaseUrl: string;
  /** 1-based. Only the first control plane creates the first account. */
  readonly number: number;
  readonly workers: number;
  readonly joins: boolean;
}

export function controlPlaneEnvironment(env: NodeJS.ProcessEnv, places: ControlPlanePlaces): NodeJS.ProcessEnv {
  return {
    ...processVariables(places.dataDir),
    ...passedThrough(env),
    STOKER_HOST: places.host,
    STOKER_PORT: String(places.port),
    STOKER_ADMIN_PORT: "0",
    STOKER_RPC_HOST: places.host,
    STOKER_RPC_PORT: String(places.rpcPort),
    STOKER_WORKERS: String(places.workers),
    DATABASE_URL: places.databaseUrl,
    STOKER_SECRETS_DIR: join(places.dataDir, "secrets"),
    STOKER_DEMO_MODELS: demoModelsDirs(env, places.dataDir).join(delimiter),
    ...(places.joins || places.number > 1 ? {} : { STOKER_ADMIN_KEY_FILE: join(places.dataDir, "admin.key") }),
    STOKER_PORTS_FILE: join(places.dataDir, "run", `${controlPlaneName(places.number)}-ports`),
    STOKER_STOP_WITH_PARENT: "1",
  };
}

/** Folder of the models that `up` assembles. */
export const ownDemoModels = (dataDir: string): string => join(dataDir, "demo-models");

/** Folders of demo models, which the control plane names and agents read. Only the first, our own, is written. */
export function demoModelsDirs(env: NodeJS.ProcessEnv, dataDir: string): readonly string[] {
  const given = (env["STOKER_DEMO_MODELS"] ?? "").split(delimiter).filter((folder) => folder !== "");
  const besideClone = join(import.meta.dirname, "../../../shared/models");
  return [ownDemoModels(dataDir), ...given.map((folder) => resolve(folder)), besideClone];
}

/** Name of its log and record files. */
export const controlPlaneName = (number: number): string =>
  number === 1 ? "control-plane" : `control-plane-${number}`;

interface Machine {
  readonly cores: number;
  readonly memoryBytes: number;
}

export interface AgentPlaces {
  readonly machine: Machine;
  readonly dataDir: string;
  /** Agent addresses of all control planes. */
  readonly controls: readonly string[];
  readonly driver: "docker" | "process";
  /** 1-based. */
  readonly number: number;
  readonly agents: number;
}

export function agentEnvironment(env: NodeJS.ProcessEnv, places: AgentPlaces): NodeJS.ProcessEnv {
  const kept = passedThrough(env);
  // Used by control planes only.
  delete kept["DATABASE_URL"];
  delete kept["REDIS_URL"];
  return {
    ...processVariables(places.dataDir),
    ...kept,
    STOKER_CONTROL: places.controls.join(","),
    STOKER_JOIN_TOKEN_FILE: join(places.dataDir, "secrets", "agent.token"),
    STOKER_AGENT_DATA: join(places.dataDir, "agents", String(places.number)),
    STOKER_NODE_NAME: `local-${places.number}`,
    STOKER_MODELS_DIR: join(places.dataDir, "models"),
    STOKER_DRIVER: places.driver,
    STOKER_STOP_WITH_PARENT: "1",
    STOKER_STOP_INSTANCES: "1",
    ...(places.agents > 1 && kept["STOKER_GPUS"] === undefined ? share(places.machine, places.agents) : {}),
  };
}

/** Divides the machine between several agents. */
function share(machine: Machine, agents: number): NodeJS.ProcessEnv {
  const slots = slotCount({ cpuCores: machine.cores, memoryBytes: machine.memoryBytes });
  const gpus = Math.max(1, Math.floor(slots / agents));
  const memoryBytes = Math.floor((0.75 * machine.memoryBytes) / agents / gpus);
  return { STOKER_GPUS: String(gpus), STOKER_GPU_MEMORY_BYTES: String(memoryBytes) };
}
