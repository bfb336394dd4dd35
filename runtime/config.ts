// Environment and arguments of the model server -> one frozen object. Every problem is reported at once.
import { maxBatchSize } from "../proto/batch-size.ts";
import { readEngineOptions } from "./engine-options.ts";

export type RuntimeConfig = ReturnType<typeof readConfig>;

export class ConfigError extends Error {
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(`bad configuration: ${problems.join("; ")}`);
    this.name = "ConfigError";
    this.problems = problems;
  }
}

const providers = ["auto", "cpu", "cuda", "tensorrt", "webgpu"] as const;
const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

/** Throws ConfigError. `cores`: number of cores available to this process. */
export function readConfig(
  env: Readonly<Record<string, string | undefined>>,
  cores: number,
  args: readonly string[] = [],
) {
  const problems: string[] = [];
  const text = (key: string) => env[key]?.trim() || undefined;
  const need = (key: string) => {
    const value = text(key);
    if (value === undefined) problems.push(`${key} is required`);
    return value ?? "";
  };
  const number = (key: string, fallback: number, min: number, max: number, whole = true) => {
    const raw = text(key);
    if (raw === undefined) return fallback;
    const value = Number(raw);
    if (!Number.isFinite(value) || value < min || value > max || (whole && !Number.isInteger(value)))
      problems.push(`${key} must be ${whole ? "a whole number" : "a number"} from ${min} to ${max}, not "${raw}"`);
    return value;
  };
  const modelPath = need("STOKER_MODEL_PATH");
  if (/\.(bin|pt|pth|ckpt|pkl|pickle|h5|joblib|safetensors)$/i.test(modelPath))
    problems.push("STOKER_MODEL_PATH must name a .gguf file, or the folder of an ONNX model");
  const draftModelPath = text("STOKER_DRAFT_MODEL_PATH");
  if (draftModelPath !== undefined && !draftModelPath.endsWith(".gguf"))
    problems.push("STOKER_DRAFT_MODEL_PATH must name a .gguf file");
  const provider = providers.find((one) => one === (text("STOKER_ONNX_PROVIDER") ?? "auto"));
  if (!provider) problems.push(`STOKER_ONNX_PROVIDER must be one of ${providers.join(", ")}`);
  const layers = text("STOKER_GPU_LAYERS");
  const options = readEngineOptions(args, problems);
  if (draftModelPath !== undefined && options.speculative !== "off")
    problems.push("--speculative is for guesses without a draft model: give one of the two");
  const logLevel = text("STOKER_LOG_LEVEL") ?? "info";
  if (!logLevels.includes(logLevel)) problems.push(`STOKER_LOG_LEVEL must be one of ${logLevels.join(", ")}`);
  const cpus = number("STOKER_CPUS", cores, 0.01, 4096, false);
  const config = {
    instanceId: need("STOKER_INSTANCE_ID"),
    /** A .gguf file, or for onnxruntime a folder or a .onnx file in one. */
    modelPath,
    /** A second .gguf file, whose guesses the model checks; undefined: none. */
    draftModelPath,
    /** Task of an ONNX model; empty: from its configuration. */
    task: text("STOKER_TASK") ?? "",
    servedModelName: need("STOKER_SERVED_MODEL_NAME"),
    maxBatchSize: number("STOKER_MAX_BATCH_SIZE", 1, 1, maxBatchSize),
    /** Tokens per sequence; 0 = what the model was trained on, bounded by memory. */
    contextLength: number("STOKER_CONTEXT_LENGTH", 0, 0, 10_000_000),
    /** llama.cpp spins while it waits: a thread more than the granted cores stalls all of them. */
    threads: Math.max(1, Math.floor(Math.min(cpus, cores))),
    /** 0 = unbounded. */
    memoryBytes: number("STOKER_MEMORY_BYTES", 0, 0, Number.MAX_SAFE_INTEGER),
    gpuLayers:
      layers === undefined || layers === "auto" ? ("auto" as const) : number("STOKER_GPU_LAYERS", 0, 0, 10_000),
    /** The execution provider of ONNX models; `auto`: the GPU where one was granted. */
    provider: provider ?? "auto",
    /** Maximum time an item waits for others to share its batch while nothing runs. */
    latencyBudgetMs: number("STOKER_BATCH_WAIT_MS", 8, 0, 1000, false),
    /** Folder for ONNX graphs optimised for this machine; undefined: none are kept. */
    graphCacheDir: text("STOKER_GRAPH_CACHE"),
    /** LoRA files of a picture model, folded in as it is loaded. */
    imageAdapters: readImageAdapters(text("STOKER_IMAGE_ADAPTERS"), problems),
    ...options,
    host: text("STOKER_HOST") ?? "127.0.0.1",
    port: number("STOKER_PORT", 0, 0, 65_535),
    addressFile: text("STOKER_ADDRESS_FILE"),
    /** File with the bearer secret that every request must carry; undefined: none is required. */
    secretFile: text("STOKER_SECRET_FILE"),
    chatTemplateFile: text("STOKER_CHAT_TEMPLATE_FILE"),
    /** 0 = off. */
    orphanTimeoutMs: number("STOKER_ORPHAN_TIMEOUT_MS", 0, 0, 86_400_000),
    logLevel,
  };
  if (problems.length > 0) throw new ConfigError(problems);
  return Object.freeze(config);
}

/** `/weights/ink.safetensors:/weights/gold.safetensors=0.5`: paths, each with its strength where that is not 1. */
function readImageAdapters(
  list: string | undefined,
  problems: string[],
): { readonly path: string; readonly strength: number }[] {
  return (list ?? "")
    .split(":")
    .filter((one) => one !== "")
    .map((one) => {
      const [, path = one, strength = "1"] = /^(.+)=(-?[\d.]+)$/.exec(one) ?? [];
      const isNumber = Number.isFinite(Number(strength)) && Math.abs(Number(strength)) <= 10;
      if (!isNumber) problems.push(`STOKER_IMAGE_ADAPTERS has the strength "${strength}"; it goes from -10 to 10`);
      return { path, strength: Number(strength) };
    });
}
