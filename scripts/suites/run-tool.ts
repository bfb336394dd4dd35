import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { resolve } from "node:path";

export const root = resolve(import.meta.dirname, "../..");

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** Ends the program. */
  readonly stop?: AbortSignal | undefined;
  /** File for the output. Default: this terminal. */
  readonly outputFile?: string | undefined;
}

/** Runs a program under Node 24. Returns its exit code, or null if a signal, the limit or `stop` ended it. */
export function runNode(args: readonly string[], limitMs: number, options: RunOptions = {}): Promise<number | null> {
  const { env, stop, outputFile } = options;
  const plain = process.stdout.isTTY && !outputFile ? {} : { NO_COLOR: "1", FORCE_COLOR: undefined };
  return new Promise((resolveCode, reject) => {
    const output = outputFile === undefined ? "inherit" : openSync(outputFile, "a");
    const child = spawn(process.execPath, args, {
      cwd: root,
      stdio: ["ignore", output, output],
      env: { ...process.env, ...plain, ...env },
      timeout: limitMs,
    });
    if (output !== "inherit") closeSync(output);
    const end = () => child.kill();
    stop?.addEventListener("abort", end);
    child.once("error", reject);
    child.once("exit", (code) => {
      stop?.removeEventListener("abort", end);
      resolveCode(code);
    });
  });
}
