import type { Logger } from "pino";

/** Ends the process on an uncaught exception: its state is unknown, a supervisor starts a new one, and model servers continue. */
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
