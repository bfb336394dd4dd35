import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

export const root = resolve(import.meta.dirname, "../..");

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** Ends the program and all processes that it started in its group. */
  readonly stop?: AbortSignal | undefined;
  /** File for the output. Default: this terminal. */
  readonly outputFile?: string | undefined;
}

/** Time that the processes of a stopped program get to end. */
const graceMs = 20_000;

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
      // A group of its own: a control plane or PostgreSQL that a test started outlives vitest.
      detached: stop !== undefined,
    });
    const end = () => void endProcess(child.pid, stop !== undefined);
    const limit = setTimeout(end, limitMs);
    if (output !== "inherit") closeSync(output);
    stop?.addEventListener("abort", end);
    child.once("error", (error) => {
      clearTimeout(limit);
      reject(error);
    });
    child.once("exit", async (code) => {
      clearTimeout(limit);
      stop?.removeEventListener("abort", end);
      if (stop?.aborted) await endProcess(child.pid, true);
      resolveCode(code);
    });
  });
}

/** Sends SIGTERM to a process or its group, and SIGKILL to what remains after the grace period. */
async function endProcess(pid: number | undefined, isGroup: boolean): Promise<void> {
  if (pid === undefined) return;
  const send = (signal: NodeJS.Signals | 0): boolean => {
    try {
      return process.kill(isGroup ? -pid : pid, signal);
    } catch {
      return false;
    }
  };
  const untilMs = performance.now() + graceMs;
  for (let isAlive = send("SIGTERM"); isAlive; isAlive = send(0)) {
    if (performance.now() >= untilMs) return void send("SIGKILL");
    await wait(100);
  }
}
