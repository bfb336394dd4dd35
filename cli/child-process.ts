import { spawn } from "node:child_process";

/** Runs a program on this terminal and exits with its exit code. */
export function runChild(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: "inherit", env });
    // Ctrl-C reaches the child as well; this process only waits for its end.
    process.on("SIGINT", () => {});
    process.on("SIGTERM", () => child.kill("SIGTERM"));
    child.once("error", reject);
    child.once("exit", (code) => {
      process.exitCode = code ?? 1;
      resolve();
    });
  });
}

/** Runs a TypeScript entry under this Node. */
export const runNode = (entry: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<void> =>
  runChild(process.execPath, ["--disable-warning=ExperimentalWarning", entry, ...args], env);
