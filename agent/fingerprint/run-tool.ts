import { execFile } from "node:child_process";

export type ToolEnd =
  | { readonly kind: "ok"; readonly output: string }
  | { readonly kind: "missing" }
  /** `reason` is one line: the tool's own words, or how it ended. */
  | { readonly kind: "failed"; readonly reason: string };

const outputLimitBytes = 4 * 1024 * 1024;

/** Runs a system tool without a shell. Answers after `limitMs` even where the kernel does not let the process be killed. */
export function runTool(file: string, args: readonly string[], limitMs: number, signal: AbortSignal): Promise<ToolEnd> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const options = {
      maxBuffer: outputLimitBytes,
      killSignal: "SIGKILL",
      env: { ...process.env, LC_ALL: "C" },
    } as const;
    const child = execFile(file, args, options, (error, stdout, stderr) => {
      finish();
      if (!error) return resolve({ kind: "ok", output: stdout });
      const { code } = error as { code?: string | number | null };
      if (code === "ENOENT") return resolve({ kind: "missing" });
      const said = `${stderr}\n${stdout}`.split("\n").find((line) => line.trim() !== "");
      return resolve({
        kind: "failed",
        reason: said?.trim().slice(0, 300) ?? `it ended with ${code ?? error.message}`,
      });
    });
    const stop = (): void => {
      child.kill("SIGKILL");
      child.unref();
    };
    const timer = setTimeout(() => {
      stop();
      finish();
      resolve({ kind: "failed", reason: `it did not answer within ${limitMs / 1000} s` });
    }, limitMs);
    const abort = (): void => {
      stop();
      finish();
      reject(signal.reason);
    };
    const finish = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    };
    signal.addEventListener("abort", abort, { once: true });
  });
}
