// Several processes behind one public port. Each is a control plane of its own with leases and caches; the first also runs the controllers and
// serves agents and the operator's pages. The parent serves no requests: it starts the workers, relays their messages and starts those again
// that exit.
import { type ChildProcess, spawn } from "node:child_process";
import type { Logger } from "pino";
import { AggregatorRegistry, type MetricObject, type Registry } from "prom-client";
import type { WorkerChannel } from "../signals/worker-signals.ts";

export interface Ports {
  readonly http: number;
  readonly admin: number;
  readonly rpc: number;
}

/** A message between workers; the parent relays it to all others, or reads the ports. */
interface Envelope {
  readonly from: number;
  readonly body: unknown;
}

const firstPauseMs = 500;
const maxPauseMs = 10_000;
/** A run of at least this time resets the back-off. */
const settledMs = 30_000;
/** Time for a worker's end beyond its own drain. */
const stopSlackMs = 20_000;

export interface WorkersDeps {
  readonly count: number;
  readonly env: NodeJS.ProcessEnv;
  readonly drainMs: number;
  /** Called when all workers listen for the first time. */
  readonly onReady: (ports: Ports) => Promise<void>;
  readonly log: Logger;
}

/** Resolves with the exit code when all workers have stopped after `signal`, or the first one could not start. */
export async function runWorkers(deps: WorkersDeps, signal: AbortSignal): Promise<number> {
  const { count, log } = deps;
  const running = new Map<number, ChildProcess>();
  const pauses = new Map<number, NodeJS.Timeout>();
  let ports: Ports | undefined;
  let stop: (code: number) => void = () => {};
  const stopped = new Promise<number>((resolve) => {
    stop = resolve;
  });

  const relay = (envelope: Envelope): void => {
    for (const [number, other] of running)
      if (number !== envelope.from && other.connected) other.send(envelope, () => {});
  };

  function start(number: number, pauseMs = firstPauseMs): Promise<Ports> {
    const startedMs = performance.now();
    const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      env: { ...deps.env, ...workerEnv(number, ports) },
      // A closed stdin tells a worker that the parent is gone, also after kill -9.
      stdio: ["pipe", "inherit", "inherit", "ipc"],
    });
    child.stdin?.on("error", () => {});
    running.set(number, child);
    return new Promise((resolve) => {
      child.on("message", (message) => {
        const { body } = message as Envelope;
        if (isPorts(body)) resolve(body.ports);
        else relay({ from: number, body });
      });
      child.once("exit", (code, killedBy) => {
        running.delete(number);
        if (signal.aborted) return;
        // A control plane that could not start at all exits, so that its supervisor sees it.
        if (ports === undefined) return stop(code ?? 1);
        const nextMs = performance.now() - startedMs > settledMs ? firstPauseMs : Math.min(2 * pauseMs, maxPauseMs);
        log.error({ worker: number, code, signal: killedBy, pauseMs }, "worker exited; starting it again");
        pauses.set(
          number,
          setTimeout(() => void start(number, nextMs), pauseMs),
        );
      });
    });
  }

  const started = (async () => {
    // Alone, because it migrates the database and chooses the ports.
    const first = await start(1);
    ports = first;
    if (signal.aborted) return;
    await Promise.all(Array.from({ length: count - 1 }, (_, i) => start(i + 2)));
    await deps.onReady(first);
  })();
  started.catch((error) => {
    log.fatal({ err: error }, "could not start the workers");
    stop(1);
  });

  const aborted = new Promise<number>((resolve) => {
    const onAbort = () => resolve(0);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
  });
  const code = await Promise.race([stopped, aborted]);
  for (const pause of pauses.values()) clearTimeout(pause);
  await Promise.all([...running.values()].map((child) => end(child, deps.drainMs + stopSlackMs)));
  return code;
}

/** The later workers listen on the port that the first one chose, and report the address at which it serves agents. */
const workerEnv = (number: number, ports: Ports | undefined): NodeJS.ProcessEnv => ({
  STOKER_WORKER: String(number),
  STOKER_STOP_WITH_PARENT: "1",
  STOKER_PORTS_FILE: "",
  ...(ports && {
    STOKER_PORT: String(ports.http),
    STOKER_ADMIN_PORT: String(ports.admin),
    STOKER_RPC_PORT: String(ports.rpc),
  }),
});

function end(child: ChildProcess, limitMs: number): Promise<void> {
  return new Promise((resolve) => {
    const kill = setTimeout(() => child.kill("SIGKILL"), limitMs);
    child.once("exit", () => {
      clearTimeout(kill);
      resolve();
    });
    child.kill("SIGTERM");
  });
}

function isPorts(body: unknown): body is { readonly ports: Ports } {
  return typeof body === "object" && body !== null && "ports" in body;
}

/** Channel of this process with the other workers, and reports to the parent. */
export interface OwnWorker extends WorkerChannel {
  readonly number: number;
  reportPorts(ports: Ports): void;
}

/** Worker of this process; undefined: it has no others beside it. */
export function openWorker(number: number | undefined): OwnWorker | undefined {
  if (number === undefined) return undefined;
  const handlers: ((body: unknown, from: number) => void)[] = [];
  process.on("message", (message) => {
    const { body, from } = message as Envelope;
    for (const handler of handlers) handler(body, from);
  });
  // A worker ends by signals and its stdin, not by a closed channel.
  process.channel?.unref();
  const send = (body: unknown): void => {
    // Dropped while the parent reads slowly or is gone; a message is a hint.
    if (process.connected) process.send?.({ from: number, body } satisfies Envelope, undefined, undefined, () => {});
  };
  return {
    number,
    send,
    on: (handler) => {
      handlers.push(handler);
    },
    get isOpen() {
      return process.connected;
    },
    reportPorts: (ports) => send({ ports }),
  };
}

/** Time for the other workers' metrics; a page without those of a busy worker is better than none. */
const metricsLimitMs = 1_000;

/**
 * Returns the text of all workers' metrics, each with the label `worker`. The first worker asks the others for theirs; every worker must call
 * this to respond.
 */
export function shareMetrics(worker: OwnWorker, count: number, registry: Registry): () => Promise<string> {
  registry.setDefaultLabels({ worker: String(worker.number) });
  const waiting = new Map<number, (metrics: readonly MetricObject[]) => void>();
  let lastRequest = 0;
  worker.on(async (body) => {
    if (typeof body !== "object" || body === null) return;
    if ("metricsFor" in body)
      worker.send({ metricsOf: worker.number, request: body.metricsFor, metrics: await registry.getMetricsAsJSON() });
    else if ("metricsOf" in body) {
      const { request, metrics } = body as unknown as { request: number; metrics: readonly MetricObject[] };
      waiting.get(request)?.(metrics);
    }
  });
  return async () => {
    const request = ++lastRequest;
    const found: (readonly MetricObject[])[] = [];
    const others = new Promise<void>((resolve) => {
      const limit = setTimeout(resolve, metricsLimitMs);
      waiting.set(request, (metrics) => {
        found.push(metrics);
        if (found.length < count - 1) return;
        clearTimeout(limit);
        resolve();
      });
    });
    worker.send({ metricsFor: request });
    const own = await registry.getMetricsAsJSON();
    await others;
    waiting.delete(request);
    // No two workers have a series in common, so nothing is summed.
    const all = [own, ...found].map((metrics) => metrics.map((metric) => ({ ...metric, aggregator: "sum" as const })));
    return AggregatorRegistry.aggregate(all).metrics();
  };
}
