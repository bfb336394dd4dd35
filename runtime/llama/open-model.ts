// Opens a GGUF model and one context with a sequence per batch slot. Uses the prebuilt llama.cpp only: nothing is
// downloaded or compiled, and threads never exceed the granted cores.
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Llama, LlamaContext, LlamaModel } from "node-llama-cpp";
import type { DraftModel } from "./draft-model.ts";
import { LoadFailure, loadFailure, notOpened } from "./load-failure.ts";
import { AdapterRefusal } from "./lora/adapter-refusal.ts";
import { isGguf } from "./lora/gguf-file.ts";
import type { ModelOptions } from "./model-options.ts";

export interface OpenModel {
  readonly llama: Llama;
  readonly model: LlamaModel;
  readonly context: LlamaContext;
  readonly contextLength: number;
  readonly provider: string;
  readonly draft: DraftModel | undefined;
  /** Gives the memory of the models and their contexts up. */
  close(): Promise<void>;
  /** A further context over the same weights, with that adapter. Throws AdapterRefusal. */
  openAdapter(file: string): Promise<LlamaContext>;
  /** Prompt tokens that one sequence may put into a batch. */
  readonly longestPromptStep: number;
}

/** llama.cpp's numbers of these types. */
const ggmlTypes = { f16: 1, q8_0: 8, q4_0: 2 } as const satisfies Record<ModelOptions["kvCacheType"], number>;

/** Node, buffers and the sampler beside weights and context. */
const ownBytes = 224 * 1024 * 1024;

/** Throws LoadFailure. */
export function openModel(options: ModelOptions): Promise<OpenModel> {
  return explained(options, (onLog) => load(options, onLog));
}

/** Runs a load; a failure contains llama.cpp's message. Throws LoadFailure. */
export async function explained<T>(
  options: ModelOptions,
  load: (onLog: (level: string, line: string) => void) => Promise<T>,
): Promise<T> {
  await checkMagic(options.modelPath);
  const lines: string[] = [];
  let isLoading = true;
  const onLog = (level: string, line: string) => {
    if (isLoading && (level === "warn" || level === "error" || level === "fatal")) lines.push(line);
    options.onLog(level, line);
  };
  try {
    return await load(onLog);
  } catch (error) {
    // llama.cpp's own words come through a queue and may arrive after the failure they explain.
    for (let i = 0; i < 15 && lines.length === 0; i++) await sleep(20);
    throw loadFailure(error, lines);
  } finally {
    isLoading = false;
  }
}

/** llama.cpp itself stays when a model is unloaded: it takes longer to start than a small model takes to load. */
const running = new Map<string, Promise<Llama>>();

/** Models without contexts whose weights stay mapped while they sleep, by their file. */
const mapped = new Map<string, LlamaModel>();

/**
 * Gives the memory of a model up, whose contexts are disposed. On the processor weights are mapped pages of their file, which
 * the system takes when it needs them: such a model stays, and is ready again without a load. Not one that has copies of its own,
 * as for weights that llama.cpp rearranges, or a vocabulary beyond what a process may keep while it sleeps.
 */
async function release(llama: Llama, model: LlamaModel, path: string): Promise<void> {
  if (llama.gpu === false && (await anonymousBytes()) <= ownBytes) mapped.set(path, model);
  else await model.dispose();
}

/** Memory of this process that no file backs; infinite where the system does not report it. */
async function anonymousBytes(): Promise<number> {
  const status = await readFile("/proc/self/status", "utf8").catch(() => "");
  const kib = /^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1];
  return kib === undefined ? Number.POSITIVE_INFINITY : Number(kib) * 1024;
}

/** Imported here so that the server answers /health before the library is read. */
export async function loadWeights(options: ModelOptions, onLog: (level: string, line: string) => void) {
  const { getLlama, LlamaLogLevel } = await import("node-llama-cpp");
  const base = {
    build: "never",
    skipDownload: true,
    progressLogs: false,
    maxThreads: options.threads,
    logLevel: LlamaLogLevel.info,
    logger: onLog,
  } as const;
  const key = `${options.gpuLayers === 0 ? "cpu" : "auto"} ${options.threads}`;
  const starting =
    running.get(key) ??
    (options.gpuLayers === 0
      ? getLlama({ ...base, gpu: false })
      : getLlama({ ...base, gpu: "auto" }).catch(() => getLlama({ ...base, gpu: false })));
  running.set(key, starting);
  const llama = await starting;
  llama.logger = onLog;
  llama.logLevel = LlamaLogLevel.info;
  const { modelPath } = options;
  const known = mapped.get(modelPath);
  mapped.delete(modelPath);
  const model =
    known ??
    (await llama.loadModel({
      modelPath,
      gpuLayers: llama.gpu === false ? 0 : options.gpuLayers,
      onLoadProgress: options.onProgress,
    }));
  // llama.cpp logs the effective options while it loads; later its lines only cost time.
  const isOpened = () => {
    llama.logLevel = LlamaLogLevel.warn;
  };
  return { llama, model, isOpened, release: () => release(llama, model, modelPath) };
}

/** Estimates for the models of this process, so that it is loaded again without them. */
const costs = new Map<string, ContextCost>();

async function load(options: ModelOptions, onLog: (level: string, line: string) => void): Promise<OpenModel> {
  const { threads, sequences } = options;
  const { llama, model, isOpened, release } = await loadWeights(options, onLog);
  const isOnGpu = llama.gpu !== false && model.gpuLayers > 0;
  const { draftModelPath } = options;
  const draft =
    draftModelPath === undefined
      ? undefined
      : await (await import("./draft-model.ts")).openDraft(llama, model, draftModelPath, options);
  // Its part in graphics memory is no longer free when the model's context is measured.
  const ownRam = isOnGpu ? 0 : model.size + (draft?.bytes ?? 0);
  const batchSize = Math.max(isOnGpu ? 2048 : 512, sequences);
  const shape = {
    batchSize,
    flashAttention: options.flashAttention,
    kvCacheKeyType: ggmlTypes[options.kvCacheType],
    kvCacheValueType: ggmlTypes[options.kvCacheType],
  };
  const cost = async (contextSize: number, count = sequences) => {
    const key = JSON.stringify([options.modelPath, shape, contextSize, count, model.gpuLayers]);
    const known = costs.get(key) ?? { contextSize, bytes: await estimate(contextSize, count) };
    costs.set(key, known);
    return known;
  };
  const estimate = async (contextSize: number, count: number) => {
    const { cpuRam, gpuVram } = await model.fileInsights.estimateContextResourceRequirementsV2({
      ...shape,
      contextSize,
      sequences: count,
      modelGpuLayers: model.gpuLayers,
    });
    return isOnGpu ? Math.max(cpuRam, gpuVram) : cpuRam;
  };
  const vramLeft = async () => (isOnGpu ? (await llama.getVramState()).free * 0.92 : Number.POSITIVE_INFINITY);
  const contextLength = fitContext({
    wanted: options.contextLength,
    trained: model.trainContextSize,
    small: await cost(512),
    large: await cost(1536),
    budgetBytes: Math.min(await vramLeft(), ramLeft(options.memoryBytes, ownRam)),
  });
  const contexts = new Set<LlamaContext>();
  const newContext = async (count: number, adapter?: string) => {
    const made = await model.createContext({
      sequences: count,
      contextSize: contextLength,
      batchSize,
      flashAttention: shape.flashAttention,
      experimentalKvCacheKeyType: shape.kvCacheKeyType,
      experimentalKvCacheValueType: shape.kvCacheValueType,
      threads: { ideal: threads, min: threads },
      ...(adapter === undefined ? {} : { lora: adapter }),
    });
    contexts.add(made);
    made.onDispose.createListener(() => void contexts.delete(made));
    return made;
  };
  const context = await newContext(sequences);
  if (draft) {
    const first = context.getSequence();
    await draft.check(first).finally(() => first.dispose());
  }
  isOpened();
  let claimed = (await cost(contextLength)).bytes;
  return {
    llama,
    model,
    context,
    draft,
    close: async () => {
      await draft?.close();
      for (const one of contexts) await one.dispose();
      await release();
    },
    openAdapter: async (file) => {
      const left = Math.min(await vramLeft(), ramLeft(options.memoryBytes, isOnGpu ? 0 : ownRam + claimed));
      // Fewer requests at a time with this adapter are better than none.
      let count = sequences;
      while (count > 1 && (await cost(contextLength, count)).bytes > left) count = Math.floor(count / 2);
      const { bytes } = await cost(contextLength, count);
      if (bytes > left)
        throw new AdapterRefusal(
          `an adapter needs a context of its own, which takes ${mib(bytes)} MiB; ${mib(Math.max(0, left))} MiB are left. Unload another adapter, or deploy with more memory or a shorter context`,
          { needsSpace: true },
        );
      const adapted = await newContext(count, file).catch((error: unknown) => {
        throw new AdapterRefusal("llama.cpp refuses this adapter: is it for another base model, or damaged?", {
          cause: error,
        });
      });
      claimed += bytes;
      adapted.onDispose.createListener(() => {
        claimed -= bytes;
        forgetAdapter(model, file);
      });
      return adapted;
    },
    contextLength: Math.min(contextLength, context.contextSize),
    provider: llama.gpu === false ? "cpu" : llama.gpu,
    longestPromptStep: Math.max(16, Math.floor(batchSize / 2)),
  };
}

const mib = (bytes: number) => Math.ceil(bytes / 1024 / 1024);

/** Under a limit weights count too; without one, a part of what the machine has free stays free. */
function ramLeft(limitBytes: number, weightBytes: number): number {
  return limitBytes > 0 ? limitBytes - weightBytes - ownBytes : process.availableMemory() * 0.8;
}

async function checkMagic(path: string): Promise<void> {
  const isOne = await isGguf(path).catch((error: NodeJS.ErrnoException) => {
    throw notOpened(path, error);
  });
  if (!isOne) throw new LoadFailure("not a GGUF file", `${path} does not begin like one; give a .gguf file`);
}

// The library caches adapters by path until the model is disposed, so a reloaded adapter would be stale. Removes its entry from an
// internal map.
interface Internals {
  readonly _loraAdapters: Map<string, { dispose(): Promise<void> }>;
}

/** `file`: absolute path as passed to the context. */
function forgetAdapter(model: LlamaModel, file: string): void {
  const { _loraAdapters: kept } = model as unknown as Internals;
  const adapter = kept.get(file);
  if (!adapter) return;
  kept.delete(file);
  void adapter.dispose().catch(() => {});
}

export interface ContextCost {
  readonly contextSize: number;
  readonly bytes: number;
}

export interface ContextParams {
  /** 0 = as long as the model was trained on. */
  readonly wanted: number;
  readonly trained: number;
  readonly small: ContextCost;
  readonly large: ContextCost;
  /** Memory left for the context; Infinity = unbounded. */
  readonly budgetBytes: number;
}

const step = 256;
const shortest = 256;

/**
 * Tokens per sequence that fit into memory. The cost of a context is linear in its length, so two estimates determine all others.
 * Throws LoadFailure when a requested length does not fit, or not even the shortest one.
 */
export function fitContext({ wanted, trained, small, large, budgetBytes }: ContextParams): number {
  const perToken = Math.max(1, (large.bytes - small.bytes) / (large.contextSize - small.contextSize));
  const available = small.contextSize + (budgetBytes - small.bytes) / perToken;
  const fits = available === Infinity ? Infinity : Math.floor(available / step) * step;
  const inMiB = (bytes: number) => `${Math.ceil(bytes / 1024 / 1024)} MiB`;
  if (wanted > 0) {
    // llama.cpp allocates in steps, so a length costs what its next step costs.
    if (Math.ceil(wanted / step) * step > fits)
      throw new LoadFailure(
        "out of memory",
        `a context of ${wanted} tokens per sequence needs ${inMiB(small.bytes + (wanted - small.contextSize) * perToken)}, ${inMiB(Math.max(0, budgetBytes))} are left; lower the context length or max_batch_size, or give more memory`,
      );
    return wanted;
  }
  if (fits < shortest)
    throw new LoadFailure(
      "out of memory",
      `even ${shortest} tokens per sequence do not fit into the ${inMiB(Math.max(0, budgetBytes))} left beside the weights; lower max_batch_size or give more memory`,
    );
  return Math.min(trained, fits);
}
