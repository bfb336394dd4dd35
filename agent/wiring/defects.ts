import type { Logger } from "pino";

/** An exception nobody caught ends the process: its state is unknown, a supervisor starts a new one, and model servers run on. */
export function dieOnDefect(log: Logger): void {
  const die = (error: unknown) => {
    log.fatal({ err: error }, "uncaught exception; the agent ends, its model servers run on");
    // The log is written in the background: give it a moment, but not for ever.
    log.flush(() => process.exit(1));
    setTimeout(() => process.exit(1), 1_000);
  };
  process.on("uncaughtException", die);
  process.on("unhandledRejection", die);
}

/** A start that failed: one clear sentence where the cause is known, everything otherwise. */
export function tellAndExit(error: unknown): void {
  const isKnown = error instanceof Error && (error.name === "ConfigError" || "code" in error);
  const text = isKnown ? error.message : error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`agent: ${text}\n`);
  process.exit(1);
}
