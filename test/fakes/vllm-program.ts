// The real vLLM, installed outside the repository, and weights that it reads.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { freePort } from "./free-port.ts";
import { isNightly } from "./nightly.ts";
import { atWorkerEnd } from "./worker-end.ts";

const root = join(import.meta.dirname, "../..");
const program = process.env["STOKER_VLLM_BIN"] ?? "";
const run = promisify(execFile);

/** Path of the program that STOKER_VLLM_BIN names; undefined: there is none. */
export const installedVllm = (): string | undefined => (existsSync(program) ? program : undefined);

/** Path of the program; undefined, said loudly, where none is named. `promise`: what then stays unproven. */
export function vllmProgram(promise: string): string | undefined {
  if (!isNightly) return undefined;
  if (existsSync(program)) return program;
  const how = "set STOKER_VLLM_BIN to a vllm program (docs/operations/engines.md)";
  process.stderr.write(`\nNOT PROVEN: ${promise}: ${how}\n`);
  return undefined;
}

/** Python of its environment. */
export const vllmPython = (): string => join(dirname(program), "python");

export const vllmEnv = { VLLM_NO_USAGE_STATS: "1", HF_HUB_OFFLINE: "1", TRANSFORMERS_OFFLINE: "1" } as const;

/** Folder of the demo model in safetensors, with a chat template that has tools; made at the first call. */
export async function safetensorsOf(gguf: string): Promise<string> {
  const folder = join(root, ".cache/models/smollm2-135m-safetensors");
  const script = join(root, "test/e2e/engines/dequantise.py");
  const template = join(root, "test/e2e/runtime/hermes.jinja");
  if (!existsSync(folder))
    await run(vllmPython(), [script, gguf, template, folder], { env: { ...process.env, ...vllmEnv } });
  return folder;
}

interface VllmServer {
  readonly origin: string;
  readonly pid: number;
  stop(): Promise<void>;
}

interface VllmServerOptions {
  readonly slots: number;
  /** Tokens of one sequence. */
  readonly slotContext: number;
  readonly threads: number;
}

const startLimitMs = 600_000;

/** The installed vLLM as a server of its own, without an agent. `folder`: of `safetensorsOf`. */
export async function startVllm(
  folder: string,
  name: string,
  { slots, slotContext, threads }: VllmServerOptions,
): Promise<VllmServer> {
  const port = await freePort();
  const args = [
    ...["serve", folder, "--served-model-name", name, "--host", "127.0.0.1", "--port", String(port)],
    ...["--max-num-seqs", String(slots), "--max-model-len", String(slotContext), "--dtype", "bfloat16"],
  ];
  const env = {
    ...process.env,
    ...vllmEnv,
    VLLM_CPU_KVCACHE_SPACE: "1",
    // It would otherwise take and pin every core.
    VLLM_CPU_OMP_THREADS_BIND: "nobind",
    OMP_NUM_THREADS: String(threads),
  };
  // A group of its own: the engine is a child of the server.
  const child = spawn(program, args, { env, stdio: ["ignore", "ignore", "inherit"], detached: true });
  const end = () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, "SIGKILL");
  };
  const forget = atWorkerEnd(end);
  const exited = once(child, "exit");
  const origin = `http://127.0.0.1:${port}`;
  const endMs = performance.now() + startLimitMs;
  while (!(await fetch(`${origin}/health`).catch(() => undefined))?.ok) {
    if (child.exitCode !== null || child.signalCode !== null || performance.now() > endMs) {
      end();
      throw new Error(`vLLM did not become ready (exit ${child.exitCode ?? child.signalCode ?? "none"})`);
    }
    await wait(500);
  }
  return {
    origin,
    pid: child.pid as number,
    stop: async () => {
      end();
      await exited;
      forget();
    },
  };
}

/** What the installed version knows. */
export interface VllmFacts {
  readonly version: string;
  readonly tools: readonly string[];
  readonly reasoning: readonly string[];
  readonly quantizations: readonly string[];
}

const question = `
import json
from vllm import __version__
from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
names = lambda manager: sorted(manager.list_registered())
print(json.dumps({"version": __version__, "tools": names(ToolParserManager), "reasoning": names(ReasoningParserManager), "quantizations": sorted(QUANTIZATION_METHODS)}))
`;

export async function askVllm(): Promise<VllmFacts> {
  const { stdout } = await run(vllmPython(), ["-c", question], { env: { ...process.env, ...vllmEnv } });
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as VllmFacts;
}
