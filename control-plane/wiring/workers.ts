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

/** A message of a worker: for the parent if it has `ports` or `alive`, otherwise for all other workers. */
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
const aliveEveryMs = 5_000;
/** A worker that is silent for this time is killed: the kernel would go on giving it connections. */
const silentLimitMs = 30_000;
/** Messages to one process that were not yet written; more are dropped, because they are hints. */
const maxPending = 64;

export interface WorkersDeps {
  readonly count: number;
  readonly env: NodeJS.ProcessEnv;
  readonly drainMs: number;
  /** Called when all workers listen for the first time. */
  readonly onReady: (ports: Ports) => Promise<void>;
  readonly log: Logger;
}

interface Worker {
  readonly child: ChildProcess;
  readonly send: (envelope: Envelope) => void;
  /** Monotonic ms of its last message; undefined before it listens. */
  aliveMs: number | undefined;
}

/** Resolves with the exit code when all workers have stopped after `signal`, or the first one could not start. */
export async function runWorkers(deps: WorkersDeps, signal: AbortSignal): Promise<number> {
  const { count, log } = deps;
  const running = new Map<number, Worker>();
  const pauses = new Map<number, NodeJS.Timeout>();
  const listening = new Map<number, PromiseWithResolvers<Ports>>();
  for (let number = 1; number <= count; number++) listening.set(number, Promise.withResolvers());
  const ended = Promise.withResolvers<number>();
  let ports: Ports | undefined;

  function start(number: number, pauseMs = firstPauseMs): void {
    const startedMs = performance.now();
    const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      env: { ...deps.env, ...workerEnv(number, ports) },
      // A closed stdin tells a worker to stop, also after a kill -9 of the parent.
      stdio: ["pipe", "inherit", "inherit", "ipc"],
    });
    child.stdin?.on("error", () => {});
    const worker: Worker = { child, send: boundedSend(child), aliveMs: undefined };
    running.set(number, worker);
    child.on("message", (message) => {
      const { body } = message as Envelope;
      if (worker.aliveMs !== undefined) worker.aliveMs = performance.now();
      if (isPorts(body)) {
        worker.aliveMs = performance.now();
        listening.get(number)?.resolve(body.ports);
      } else if (!isAlive(body))
        for (const [other, { send }] of running) if (other !== number) send({ from: number, body });
    });
    const onGone = (why: object) => {
      if (running.get(number) !== worker) return;
      running.delete(number);
      if (signal.aborted) return;
      // A control plane that could not start at all exits, so that its supervisor sees it.
      if (ports === undefined) return ended.resolve(child.exitCode ?? 1);
      const nextMs = performance.now() - startedMs > settledMs ? firstPauseMs : Math.min(2 * pauseMs, maxPauseMs);
      log.error({ worker: number, ...why, pauseMs }, "worker exited; starting it again");
      pauses.set(
        number,
        setTimeout(() => start(number, nextMs), pauseMs),
      );
    };
    child.once("exit", (code, killedBy) => onGone({ code, signal: killedBy }));
    child.once("error", (error) => onGone({ err: error }));
  }

  const killing = setInterval(() => {
    for (const [number, { child, aliveMs }] of running) {
      if (aliveMs === undefined || performance.now() - aliveMs < silentLimitMs) continue;
      log.error({ worker: number }, "worker does not respond; killing it");
      child.kill("SIGKILL");
    }
  }, aliveEveryMs);
  const started = (async () => {
    // Alone, because it migrates the database and chooses the ports.
    start(1);
    ports = await listening.get(1)?.promise;
    if (signal.aborted || ports === undefined) return;
    for (let number = 2; number <= count; number++) start(number);
    await Promise.all([...listening.values()].map(({ promise }) => promise));
    await deps.onReady(ports);
  })();
  started.catch((error) => {
    log.fatal({ err: error }, "could not start the workers");
    ended.resolve(1);
  });

  if (signal.aborted) ended.resolve(0);
  else signal.addEventListener("abort", () => ended.resolve(0), { once: true });
  const code = await ended.promise;
  clearInterval(killing);
  for (const pause of pauses.values()) clearTimeout(pause);
  await Promise.all([...running.values()].map(({ child }) => end(child, deps.drainMs + stopSlackMs)));
  return code;
}

/** Sends to a process, unless it is gone or does not read. */
function boundedSend(to: Pick<NodeJS.Process | ChildProcess, "connected" | "send">): (envelope: Envelope) => void {
  let pending = 0;
  return (envelope) => {
    if (!to.connected || pending >= maxPending) return;
    pending += 1;
    to.send?.(envelope, undefined, undefined, () => {
      pending -= 1;
    });
  };
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

/** By stdin: a service manager may have signalled the worker too, and a second signal ends it at once. */
function end(child: ChildProcess, limitMs: number): Promise<void> {
  return new Promise((resolve) => {
    const kill = setTimeout(() => child.kill("SIGKILL"), limitMs);
    child.once("exit", () => {
      clearTimeout(kill);
      resolve();
    });
    child.stdin?.end();
  });
}

const isAlive = (body: unknown): boolean => typeof body === "object" && body !== null && "alive" in body;

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
  const toParent = boundedSend(process);
  const send = (body: unknown) => toParent({ from: number, body });
  setInterval(() => send({ alive: true }), aliveEveryMs).unref();
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

/** Time for the other workers' metrics. A page without those of a worker that does not respond is better than none. */
const metricsLimitMs = 150;

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
