// What belongs to the process: its end by a defect, a failed start or a signal, and its own metrics.
import type { Logger } from "pino";
import { collectDefaultMetrics, type Registry } from "prom-client";
import { OperatorError } from "../service-error.ts";

/** An exception nobody caught ends the process: its state is unknown, and a supervisor starts a new one. */
export function dieOnDefect(log: Logger): void {
  const die = (error: unknown) => {
    log.fatal({ err: error }, "uncaught exception; the control plane ends");
    // The log is written in the background: give it a moment, but not for ever.
    log.flush(() => process.exit(1));
    setTimeout(() => process.exit(1), 1_000);
  };
  process.on("uncaughtException", die);
  process.on("unhandledRejection", die);
}

/** A start that failed: the message where the operator can act on it, otherwise the stack. */
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
 * Aborts on SIGTERM, SIGINT and, where asked for, when the parent's pipe on stdin ends: a supervisor that was killed cannot
 * say so. A second signal ends the process at once.
 */
export function stopSignal(options: { readonly withParent: boolean; readonly log: Logger }): AbortSignal {
  const stopping = new AbortController();
  const stop = (why: string) => {
    if (stopping.signal.aborted) process.exit(130);
    options.log.info({ why }, "the control plane stops");
    stopping.abort();
  };
  process.on("SIGTERM", () => stop("SIGTERM"));
  process.on("SIGINT", () => stop("SIGINT"));
  if (options.withParent) {
    const gone = () => {
      if (!stopping.signal.aborted) stop("the parent is gone");
    };
    process.stdin.on("end", gone).on("close", gone).on("error", gone).resume();
  }
  return stopping.signal;
}

/** Gauges under names of counters: Prometheus's own linter refuses them. The same figures stand under `nodejs_active_*`. */
const misnamed = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/** What the client library tells of its process. */
export function addProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
}
