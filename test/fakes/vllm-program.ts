// The real vLLM, installed outside the repository, and weights that it reads.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { VllmRecord } from "./engine-parser.ts";
import { type ModelServer, startModelServer } from "./model-server.ts";
import { isNightly } from "./nightly.ts";

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

interface VllmServerOptions {
  readonly slots: number;
  /** Tokens of one sequence. */
  readonly slotContext: number;
  readonly threads: number;
}

const startLimitMs = 600_000;

/** The installed vLLM as a server of its own, without an agent. `folder`: of `safetensorsOf`. */
export const startVllm = (
  folder: string,
  name: string,
  { slots, slotContext, threads }: VllmServerOptions,
): Promise<ModelServer> =>
  startModelServer({
    name: "vLLM",
    program,
    startLimitMs,
    args: [
      ...["serve", folder, "--served-model-name", name],
      ...["--max-num-seqs", String(slots), "--max-model-len", String(slotContext), "--dtype", "bfloat16"],
    ],
    env: {
      ...process.env,
      ...vllmEnv,
      VLLM_CPU_KVCACHE_SPACE: "1",
      // It would otherwise take and pin every core.
      VLLM_CPU_OMP_THREADS_BIND: "nobind",
      OMP_NUM_THREADS: String(threads),
    },
    stdio: ["ignore", "ignore", "inherit"],
  });

/** The installed version, such as `0.32.0+cpu`. */
export async function vllmVersion(): Promise<string> {
  const { stdout } = await run(vllmPython(), ["-c", "from importlib.metadata import version; print(version('vllm'))"]);
  return stdout.trim();
}

/** What the installed version accepts and knows, in the form of the record in test/fixtures/engine-arguments. */
export async function recordVllm(): Promise<VllmRecord> {
  const script = join(root, "scripts/engine-arguments.py");
  const { stdout } = await run(vllmPython(), [script, "vllm"], {
    env: { ...process.env, ...vllmEnv },
    maxBuffer: 64 * 1024 * 1024,
  });
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as VllmRecord;
}
