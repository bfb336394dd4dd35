import { spawn } from "node:child_process";
import { resolve } from "node:path";

export const root = resolve(import.meta.dirname, "../..");

/** Runs a program under Node 24 with its output shown; resolves with its exit code (null: ended by a signal, the limit or `stop`). */
export function runNode(
  args: readonly string[],
  limitMs: number,
  env: NodeJS.ProcessEnv = {},
  stop?: AbortSignal,
): Promise<number | null> {
  const plain = process.stdout.isTTY ? {} : { NO_COLOR: "1", FORCE_COLOR: undefined };
  return new Promise((resolveCode, reject) => {
    const child = spawn(process.execPath, args, {
      cwd: root,
      stdio: ["ignore", "inherit", "inherit"],
      env: { ...process.env, ...plain, ...env },
      timeout: limitMs,
    });
    const end = () => child.kill();
    stop?.addEventListener("abort", end);
    child.once("error", reject);
    child.once("exit", (code) => {
      stop?.removeEventListener("abort", end);
      resolveCode(code);
    });
  });
}
