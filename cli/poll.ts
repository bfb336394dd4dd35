import { setTimeout as sleep } from "node:timers/promises";
import { CliError, exitCode } from "./cli-error.ts";
import type { Terminal } from "./terminal.ts";

interface Poll<Value> {
  readonly first: Value;
  readonly read: () => Promise<Value>;
  readonly isDone: (value: Value) => boolean;
  /** Progress line, printed on stderr when it changes. */
  readonly text: (value: Value) => string;
  readonly pauseMs: number;
  /** Default: no limit. */
  readonly limitSeconds?: number;
  readonly timeoutText?: (value: Value) => string;
}

/** Polls until the value is done. Retries while the server is unavailable. Throws CliError at the limit. */
export async function poll<Value>(terminal: Terminal, options: Poll<Value>): Promise<Value> {
  const deadline = performance.now() + (options.limitSeconds ?? Number.POSITIVE_INFINITY) * 1000;
  let value = options.first;
  let printed = "";
  let isOutageReported = false;
  while (!options.isDone(value)) {
    const text = options.text(value);
    if (text !== printed) terminal.progress(text);
    printed = text;
    if (performance.now() > deadline) throw new CliError(options.timeoutText?.(value) ?? text, exitCode.timedOut);
    await sleep(options.pauseMs);
    try {
      value = await options.read();
      isOutageReported = false;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (!isOutageReported) terminal.progress(`${error.message} Still waiting.`);
      isOutageReported = true;
    }
  }
  return value;
}

/** True if the server, or a service it needs, is unavailable and may be back soon. */
export const isUnavailable = (error: unknown): error is CliError =>
  error instanceof CliError && error.exitCode === exitCode.unavailable;
