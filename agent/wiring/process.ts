import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import type { Logger } from "pino";

/** Ends the process on an uncaught exception: its state is unknown, a supervisor starts a new one, and model servers continue. */
export function dieOnDefect(log: Logger): void {
  const die = (error: unknown) => {
    log.fatal({ err: error }, "uncaught exception; the agent ends, its model servers run on");
    // The log is written in the background: allow it a limited time.
    log.flush(() => process.exit(1));
    setTimeout(() => process.exit(1), 1_000);
  };
  process.on("uncaughtException", die);
  process.on("unhandledRejection", die);
}

const forPeople = new Set(["ConfigError", "JoinNeeded"]);

/** EX_CONFIG of sysexits.h: another start fails the same way until a person acts. */
const configurationExit = 78;

/** A start that failed: one clear sentence where the cause is known, everything otherwise. */
export function reportAndExit(error: unknown): void {
  const isKnown = error instanceof Error && (forPeople.has(error.name) || "code" in error);
  const text = isKnown ? error.message : error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`agent: ${text}\n`);
  process.exit(error instanceof Error && error.name === "JoinNeeded" ? configurationExit : 1);
}

/**
 * Aborts on SIGTERM, SIGINT and, with `withParent`, when the parent's pipe on stdin ends, because a killed supervisor sends no
 * signal. A second signal ends the process at once.
 */
export function stopSignal(options: { readonly withParent: boolean; readonly log: Logger }): AbortSignal {
  const stopping = new AbortController();
  const stop = (why: string) => {
    if (stopping.signal.aborted) process.exit(130);
    options.log.info({ why }, "the agent stops");
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

/** New with every start of the machine, if the system provides it. */
export function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return hostname();
  }
}
