import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";

export type ToolEnd =
  | { readonly kind: "ok"; readonly output: string }
  | { readonly kind: "missing" }
  /** `reason` is one line: the tool's own words, or how it ended. */
  | { readonly kind: "failed"; readonly reason: string };

const outputLimitBytes = 4 * 1024 * 1024;

/** Runs a system tool without a shell. Answers after `limitMs` even where the kernel does not let the process be killed. */
export async function runTool(
  file: string,
  args: readonly string[],
  limitMs: number,
  signal: AbortSignal,
): Promise<ToolEnd> {
  // Most hosts lack a tool for good, and each attempt to start one stops this thread for milliseconds.
  if (!(await isInstalled(file))) return { kind: "missing" };
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

async function isInstalled(file: string): Promise<boolean> {
  const paths = file.includes("/") ? [file] : (process.env["PATH"] ?? "").split(delimiter).map((at) => join(at, file));
  for (const path of paths) {
    const isThere = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return true;
  }
  return false;
}
