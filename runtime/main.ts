// The model server process: listen at once, load the model, serve, drain on SIGTERM.
// Exit codes: 0 drained, 1 the model could not be loaded or the port not be opened, 2 bad configuration.
import { rename, writeFile } from "node:fs/promises";
import type { Server } from "node:http";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { type Logger, pino } from "pino";
import { readBearerSecret } from "../proto/bearer-secret.ts";
import type { BatchEvent } from "./batch/micro-batcher.ts";
import { ConfigError, type RuntimeConfig, readConfig } from "./config.ts";
import type { Engine } from "./server/engine.ts";
import { createRuntimeServer } from "./server/http-server.ts";
import { RuntimeMetrics } from "./server/metrics.ts";
import { RuntimeState, watchForOrphan } from "./server/runtime-state.ts";
import type { Sleeper } from "./server/serve-sleep.ts";
import { isTextEngine } from "./server/text-engine.ts";
import { UsageLog } from "./server/usage-log.ts";

const drainBoundMs = 600_000;
const closeBoundMs = 3_000;

function newLog(level: string, instanceId?: string): Logger {
  const out = pino.destination({ dest: 1, sync: true });
  // A full disk costs lines of the log, never the streams: what cannot be written is tried again with the next line.
  out.on("error", () => {});
  return pino(
    { level, base: { component: "runtime", instanceId }, formatters: { level: (label) => ({ level: label }) } },
    out,
  );
}

async function main(config: RuntimeConfig): Promise<void> {
  const log = newLog(config.logLevel, config.instanceId);
  const state = new RuntimeState(config.instanceId, config.servedModelName);
  const metrics = new RuntimeMetrics(state);
  const secret = config.secretFile === undefined ? undefined : readBearerSecret(config.secretFile);
  const rest = createRest(state, () => openEngine(config, state, metrics, log), log);
  const server = createRuntimeServer({ state, metrics, log, usageLog: new UsageLog(), ...rest }, secret);

  const impatient = new AbortController();
  const stop = (why: string) => {
    if (state.phase.status === "draining") return impatient.abort();
    void shutDown(log, state, server, why, impatient.signal);
  };
  process.on("SIGTERM", () => stop("SIGTERM"));
  process.on("SIGINT", () => stop("SIGINT"));

  const port = await listen(server, config);
  const { host, instanceId: instance_id } = config;
  if (config.addressFile) await writeAddressFile(config.addressFile, { host, port, pid: process.pid, instance_id });
  log.info({ host, port, threads: config.threads, maxBatchSize: config.maxBatchSize }, "listening");
  watchForOrphan(state, config.orphanTimeoutMs, () => stop("no request from the agent"));

  const startedAt = performance.now();
  const engine = await openEngine(config, state, metrics, log);
  state.ready(engine);
  const { provider, contextLength, warnings = [] } = engine;
  const tools = isTextEngine(engine) ? engine.toolFormat?.name : undefined;
  const ms = Math.round(performance.now() - startedAt);
  for (const warning of warnings) log.warn(warning);
  log.info({ ms, provider, contextLength, tools, paths: [...(engine.tasks?.keys() ?? [])] }, "model ready");
}

/** Unloads and reloads the model in this process. A reload that fails ends the process: its agent starts another one. */
function createRest(state: RuntimeState, open: () => Promise<Engine>, log: Logger): Pick<Sleeper, "sleep" | "wake"> {
  /** End of the last change: a wake waits until the model is unloaded, concurrent wakes share one load. */
  let last: Promise<void> = Promise.resolve();
  const timed = async (work: () => Promise<void>, message: string) => {
    const startedAt = performance.now();
    await work();
    log.info({ ms: Math.round(performance.now() - startedAt) }, message);
  };
  return {
    async sleep() {
      const engine = state.sleep();
      if (!engine) return state.phase.status === "asleep";
      last = timed(() => engine.close(), "model unloaded");
      await last;
      return true;
    },
    wake() {
      if (!state.wake()) return last;
      const unloaded = last;
      last = timed(async () => {
        await unloaded;
        state.ready(await open());
      }, "model loaded again");
      last.catch((error: unknown) => {
        log.error({ err: error }, "could not load the model again");
        process.exit(1);
      });
      return last;
    },
  };
}

/** GGUF goes to llama.cpp, everything else to onnxruntime; read here, so that the server answers /health before. */
async function openEngine(
  config: RuntimeConfig,
  state: RuntimeState,
  metrics: RuntimeMetrics,
  log: Logger,
): Promise<Engine> {
  if (!config.modelPath.endsWith(".gguf")) {
    const { openTasks } = await import("./tasks/open-tasks.ts");
    return openTasks({ ...config, hasGpu: config.gpuLayers !== 0, observe: (event) => observe(metrics, event) });
  }
  const { openEngine: openLlama } = await import("./llama/open-engine.ts");
  return openLlama({
    ...config,
    sequences: config.maxBatchSize,
    onProgress: (progress) => state.loaded(progress),
    onQueued: (seconds) => metrics.queued(seconds),
    onRound: (size, seconds) => metrics.round(size, seconds),
    onLog: (level, line) =>
      level === "error" || level === "fatal"
        ? log.warn({ llama: line.trim() }, "llama.cpp")
        : log[isOption(line) ? "info" : "debug"]({ llama: line.trim() }, "llama.cpp"),
  });
}

/** Lines in which llama.cpp says what it made of the options. */
const isOption = (line: string) => /flash[ _]attn|flash attention|K \(\w+\):/i.test(line);

function observe(metrics: RuntimeMetrics, event: BatchEvent): void {
  if (event.kind === "started") metrics.queued(event.queuedMs / 1000);
  else if (event.kind === "ran") metrics.round(event.items, event.ms / 1000);
  else metrics.split(event.isMemory ? "memory" : "failure");
}

async function listen(server: Server, { host, port }: RuntimeConfig): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return typeof address === "object" && address ? address.port : port;
}

async function shutDown(
  log: Logger,
  state: RuntimeState,
  server: Server,
  why: string,
  impatient: AbortSignal,
): Promise<void> {
  state.drain();
  log.info({ why, open: state.open }, "draining");
  const isClean = await drained(state, drainBoundMs, impatient);
  // The last bytes of the last answers are still on their way.
  const closed = new Promise((resolve) => server.close(resolve));
  await within(closeBoundMs, isClean ? closed : undefined);
  server.closeAllConnections();
  // Memory goes with the process; only a GPU driver is glad of an orderly end.
  await within(closeBoundMs, state.engine?.close());
  log.info({ isClean }, "stopped");
  process.exit(0);
}

async function within(ms: number, work: Promise<unknown> | undefined): Promise<void> {
  await Promise.race([work, new Promise((resolve) => setTimeout(resolve, ms))]);
}

try {
  await main(readConfig(process.env, availableParallelism(), process.argv.slice(2)));
} catch (error) {
  const isConfig = error instanceof ConfigError;
  newLog("info", process.env["STOKER_INSTANCE_ID"]).error(error instanceof Error ? error.message : String(error));
  process.exit(isConfig ? 2 : 1);
}

interface Address {
  readonly host: string;
  readonly port: number;
  readonly pid: number;
  readonly instance_id: string;
}

async function writeAddressFile(path: string, address: Address): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  await writeFile(temporary, `${JSON.stringify(address)}\n`, { mode: 0o600 });
  await rename(temporary, path);
}

const pollMs = 50;

/** True when nothing runs any more, false when `boundMs` passed or the signal aborted first. */
async function drained(state: RuntimeState, boundMs: number, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + boundMs;
  while (state.open > 0) {
    if (signal.aborted || performance.now() > deadline) return false;
    await sleep(pollMs);
  }
  return true;
}
