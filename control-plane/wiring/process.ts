// Exit of the process by a defect, a failed start or a signal, and the metrics of the process.
import type { Logger } from "pino";
import { collectDefaultMetrics, type Registry } from "prom-client";
import { OperatorError } from "../service-error.ts";

/** Exits at an uncaught exception: the state is unknown, and a supervisor starts another process. */
export function dieOnDefect(log: Logger): void {
  const die = (error: unknown) => {
    log.fatal({ err: error }, "uncaught exception; exiting");
    // The log is written in the background: wait for it, but with a limit.
    log.flush(() => process.exit(1));
    setTimeout(() => process.exit(1), 1_000);
  };
  process.on("uncaughtException", die);
  process.on("unhandledRejection", die);
}

/** Exits after a failed start, with the message for an operator if there is one, otherwise with the stack. */
export function exitWithError(error: unknown): void {
  process.stderr.write(`control-plane: ${textOf(error)}\n`);
  process.exit(exitCodeOf(error));
}

function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof OperatorError) return error.message;
  if ("syscall" in error && error.syscall === "listen" && "code" in error && error.code === "EADDRINUSE") {
    const { port } = error as Error & { port?: number };
    return `Port ${port} is in use by another program. Stop it or choose another port with STOKER_PORT.`;
  }
  return error.stack ?? error.message;
}

function exitCodeOf(error: unknown): number {
  if (error instanceof OperatorError) return error.exitCode;
  // A stop signal ended the wait for the database.
  return error instanceof Error && error.name === "AbortError" ? 0 : 1;
}

/**
 * Aborts on SIGTERM, SIGINT and, with `withParent`, when stdin ends, because a killed parent sends no signal. A second signal exits
 * at once; the end of stdin beside a signal does not: a service manager signals parent and child.
 */
export function stopSignal(options: { readonly withParent: boolean; readonly log: Logger }): AbortSignal {
  const stopping = new AbortController();
  let signals = 0;
  const stop = (why: string) => {
    if (stopping.signal.aborted) return;
    options.log.info({ why }, "shutting down");
    stopping.abort();
  };
  const onSignal = (name: NodeJS.Signals) => {
    signals += 1;
    if (signals > 1) process.exit(130);
    stop(name);
  };
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  if (options.withParent) {
    const gone = () => stop("the parent exited");
    process.stdin.on("end", gone).on("close", gone).on("error", gone).resume();
  }
  return stopping.signal;
}

/** Gauges with names of counters, which Prometheus's linter rejects. `nodejs_active_*` has the same figures. */
const misnamed = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/** Adds the client library's metrics of the process. */
export function addProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
}
