// Opens a GGUF model and one context with a sequence per batch slot. Uses the prebuilt llama.cpp only: nothing is
// downloaded or compiled, and threads never exceed the granted cores.
import { open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Llama, LlamaContext, LlamaModel } from "node-llama-cpp";
import { fitContext } from "./fit-context.ts";
import { LoadFailure, loadFailure } from "./load-failure.ts";

export interface ModelOptions {
  readonly modelPath: string;
  readonly sequences: number;
  readonly contextLength: number;
  readonly threads: number;
  readonly memoryBytes: number;
  readonly gpuLayers: "auto" | number;
  readonly onProgress: (ratio: number) => void;
  /** llama.cpp's own lines. */
  readonly onLog: (level: string, line: string) => void;
}

export interface OpenModel {
  readonly llama: Llama;
  readonly model: LlamaModel;
  readonly context: LlamaContext;
  readonly contextLength: number;
  readonly provider: string;
  /** Prompt tokens that one sequence may put into a batch. */
  readonly longestPromptStep: number;
}

/** Node, buffers and the sampler beside weights and context. */
const ownBytes = 224 * 1024 * 1024;

/** Throws LoadFailure. */
export async function openModel(options: ModelOptions): Promise<OpenModel> {
  await checkMagic(options.modelPath);
  const lines: string[] = [];
  let isLoading = true;
  const onLog = (level: string, line: string) => {
    if (isLoading && (level === "warn" || level === "error" || level === "fatal")) lines.push(line);
    options.onLog(level, line);
  };
  try {
    return await load(options, onLog);
  } catch (error) {
    // llama.cpp's own words come through a queue and may arrive after the failure they explain.
    for (let i = 0; i < 15 && lines.length === 0; i++) await sleep(20);
    throw loadFailure(error, lines);
  } finally {
    isLoading = false;
  }
}

async function load(options: ModelOptions, onLog: (level: string, line: string) => void): Promise<OpenModel> {
  const { threads, sequences, gpuLayers } = options;
  // Imported here so that the server answers /health before the library is read.
  const { getLlama, LlamaLogLevel } = await import("node-llama-cpp");
  const base = {
    build: "never",
    skipDownload: true,
    progressLogs: false,
    maxThreads: threads,
    logLevel: LlamaLogLevel.warn,
    logger: onLog,
  } as const;
  const llama = await (gpuLayers === 0
    ? getLlama({ ...base, gpu: false })
    : getLlama({ ...base, gpu: "auto" }).catch(() => getLlama({ ...base, gpu: false })));
  const model = await llama.loadModel({
    modelPath: options.modelPath,
    gpuLayers: llama.gpu === false ? 0 : gpuLayers,
    onLoadProgress: options.onProgress,
  });
  const isOnGpu = llama.gpu !== false && model.gpuLayers > 0;
  const batchSize = Math.max(isOnGpu ? 2048 : 512, sequences);
  const cost = async (contextSize: number) => {
    const { cpuRam, gpuVram } = await model.fileInsights.estimateContextResourceRequirementsV2({
      contextSize,
      sequences,
      batchSize,
      modelGpuLayers: model.gpuLayers,
    });
    return { contextSize, bytes: isOnGpu ? Math.max(cpuRam, gpuVram) : cpuRam };
  };
  const vramLeft = isOnGpu ? (await llama.getVramState()).free * 0.92 : Number.POSITIVE_INFINITY;
  const contextLength = fitContext({
    wanted: options.contextLength,
    trained: model.trainContextSize,
    small: await cost(512),
    large: await cost(1536),
    budgetBytes: Math.min(vramLeft, ramLeft(options.memoryBytes, isOnGpu ? 0 : model.size)),
  });
  const context = await model.createContext({
    sequences,
    contextSize: contextLength,
    batchSize,
    threads: { ideal: threads, min: threads },
  });
  return {
    llama,
    model,
    context,
    contextLength: Math.min(contextLength, context.contextSize),
    provider: llama.gpu === false ? "cpu" : llama.gpu,
    longestPromptStep: Math.max(16, Math.floor(batchSize / 2)),
  };
}

/** Under a limit weights count too; without one, a part of what the machine has free stays free. */
function ramLeft(limitBytes: number, weightBytes: number): number {
  return limitBytes > 0 ? limitBytes - weightBytes - ownBytes : process.availableMemory() * 0.8;
}

async function checkMagic(path: string): Promise<void> {
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    const cause = error.code === "ENOENT" ? "model file not found" : "model file not readable";
    throw new LoadFailure(cause, path, { cause: error });
  });
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
    if (bytesRead < 4 || buffer.toString("latin1") !== "GGUF")
      throw new LoadFailure("not a GGUF file", `${path} does not begin like one; give a .gguf file`);
  } finally {
    await file.close();
  }
}
