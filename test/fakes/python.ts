// Programs of other people's making, from the Python package index. scripts/test brings them (scripts/test-python.txt); whoever
// asks for one that is missing says what was not proven.
import { execFile, spawn } from "node:child_process";
import { promisify } from "node:util";

export const python = process.env["STOKER_TEST_PYTHON"] ?? "python3";

/** Without an import: some packages take seconds of the processor for it. */
export const hasModule = (name: string): Promise<boolean> =>
  promisify(execFile)(python, ["-c", `import importlib.util as u, sys; sys.exit(u.find_spec("${name}") is None)`]).then(
    () => true,
    () => false,
  );

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Ends it after `limitMs`. */
export function runPython(
  args: readonly string[],
  options: { readonly limitMs: number; readonly cwd?: string; readonly env?: Readonly<Record<string, string>> },
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(python, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: options.limitMs,
      killSignal: "SIGKILL",
    });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout.on("data", (part: Buffer) => out.push(part));
    child.stderr.on("data", (part: Buffer) => err.push(part));
    child.on("error", reject);
    child.on("close", (code) =>
      resolve({ code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() }),
    );
  });
}
