import type { Logger } from "pino";

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

const forPeople = new Set([
  "AdminKeyRefused",
  "ConfigRefused",
  "DatabaseNotReached",
  "FileNotWritten",
  "MigrationRefused",
  "RotationRefused",
  "SecretsMissing",
]);

/** A start that failed: one clear sentence where the cause is known, everything otherwise. */
export function tellAndExit(error: unknown): void {
  const isKnown = error instanceof Error && (forPeople.has(error.name) || isListenError(error));
  const text = isKnown ? sentence(error) : error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`control-plane: ${text}\n`);
  process.exit(error instanceof Error && error.name === "AbortError" ? 0 : 1);
}

const isListenError = (error: Error) =>
  "syscall" in error && error.syscall === "listen" && "code" in error && error.code === "EADDRINUSE";

function sentence(error: Error): string {
  if (!isListenError(error)) return error.message;
  const { port } = error as Error & { port?: number };
  return `Port ${port} is in use by another program. Stop it or choose another port with STOKER_PORT.`;
}
