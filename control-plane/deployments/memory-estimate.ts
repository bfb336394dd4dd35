// Estimates GPU memory of an instance from the model's files: weights, KV cache of all sequences, adapters, engine overhead.
// Pure. A measured run takes precedence (measured-memory.ts).
import { noAdapters } from "../../proto/engine-args.ts";
import { adaptedTasks, maxHeld } from "./adapter.ts";
import type { Deployment } from "./deployment.ts";

/** Dimensions read from a model's files. */
export interface ModelShape {
  readonly weightsBytes: number;
  readonly layers: number;
  /** Number of key-value heads. */
  readonly kvHeads: number;
  /** Values per head. */
  readonly keyLength: number;
  readonly valueLength: number;
  /** Trained context length in tokens. */
  readonly contextLength: number;
  /** Values of a rank-1 adapter per layer, over all matrices it may change; undefined: no such adapters. */
  readonly loraWidth?: number;
  /** For a picture model: bytes that each adapter copies and changes. */
  readonly adaptedBytes?: number;
}

/** Graphs keep no KV cache between runs. */
export const graphShape = { layers: 0, kvHeads: 0, keyLength: 0, valueLength: 0, contextLength: 0 } as const;

interface MemoryUse {
  /** Maximum concurrent sequences. */
  readonly maxBatchSize: number;
  /** Tokens per sequence; 0: the model's own. */
  readonly contextLength: number;
  readonly gpus: number;
  /** For the maximum number of adapters held at once. */
  readonly loraBytes?: number;
  /** Part of it that the engine allocates at start. */
  readonly loraBytesAtStart?: number;
  /** 2 for half precision, 1 for 8-bit keys and values. */
  readonly bytesPerKvValue?: number;
}

const mib = 1024 ** 2;
/** CUDA context, kernels and buffers of collective operations. */
const perGpuBytes = 700 * mib;
/** Activations and fragmentation. */
const workShare = 0.08;

/** Total over all its GPUs. */
export function estimateMemory(shape: ModelShape, use: MemoryUse): number {
  const work = Math.max(256 * mib, shape.weightsBytes * workShare);
  const parts = shape.weightsBytes + kvCacheBytes(shape, use) + (use.loraBytes ?? 0) + work;
  return Math.ceil(parts + perGpuBytes * Math.max(1, use.gpus));
}

/** KV cache of every sequence at its full length. */
export function kvCacheBytes(shape: ModelShape, use: MemoryUse): number {
  const tokens = Math.max(1, use.maxBatchSize) * (use.contextLength || shape.contextLength);
  const perToken = shape.layers * shape.kvHeads * (shape.keyLength + shape.valueLength);
  return tokens * perToken * (use.bytesPerKvValue ?? 2);
}

/**
 * Memory that must be free: the full estimate if the GPUs can hold it; else without adapters, which are loaded later if they
 * fit; else for one sequence at full length, since engines fit the others into the rest. `gpuBytes`: of all its GPUs; 0:
 * unknown.
 */
export function neededMemory(shape: ModelShape, use: MemoryUse, gpuBytes: number): number {
  const bare = { ...use, loraBytes: use.loraBytesAtStart ?? 0 };
  const ways = [use, bare, { ...bare, maxBatchSize: 1 }].map((way) => estimateMemory(shape, way)) as [
    number,
    ...number[],
  ];
  return gpuBytes === 0 ? ways[0] : (ways.find((bytes) => bytes <= gpuBytes) ?? (ways.at(-1) as number));
}

interface LoraMemory {
  readonly loraBytes: number;
  /** Part of it that is allocated when the engine starts, with or without adapters. */
  readonly loraBytesAtStart: number;
}

/** Maximum rank vLLM is started with (agent/engines/engine-traits.ts): every slot has this size. */
const vllmRank = 64;
/** Few adapters have a higher rank. */
const usualRank = 64;
const bytesPerValue = 2;

const none: LoraMemory = { loraBytes: 0, loraBytesAtStart: 0 };

export function loraMemory(
  shape: ModelShape,
  use: Pick<Deployment, "contextLength" | "engine" | "task" | "extraArgs">,
): LoraMemory {
  const isSupported = adaptedTasks.has(use.task) && !use.extraArgs.includes(noAdapters);
  const held = isSupported ? maxHeld(use.engine, use.task) : 0;
  // Each adapter of a picture model is a modified copy of the parts it changes.
  if (shape.adaptedBytes !== undefined) return { ...none, loraBytes: held * shape.adaptedBytes };
  if (shape.loraWidth === undefined || held === 0) return none;
  const { loraWidth, layers } = shape;
  const bytesAt = (rank: number) => rank * loraWidth * layers * bytesPerValue;
  if (use.engine === "vllm") {
    const loraBytes = held * bytesAt(vllmRank);
    return { loraBytes, loraBytesAtStart: loraBytes };
  }
  // In our runtime each adapter has its own KV cache; count the minimum, one sequence.
  const own = kvCacheBytes(shape, { maxBatchSize: 1, contextLength: use.contextLength, gpus: 1 });
  return { ...none, loraBytes: held * (bytesAt(usualRank) + own) };
}

/** Values per layer of a usual transformer. Experts of a mixture are not counted: few adapters change them. */
export function loraWidthOf(layer: {
  readonly width: number;
  /** Values of all query heads, and of all key heads. */
  readonly queryWidth: number;
  readonly keyWidth: number;
  readonly valueWidth: number;
  /** Undefined: four times the width. */
  readonly feedForward: number | undefined;
}): number {
  const { width, queryWidth, keyWidth, valueWidth, feedForward = 4 * width } = layer;
  // Each matrix change has two factors: inputs to rank, and rank to outputs.
  const attention = 2 * (width + queryWidth) + (width + keyWidth) + (width + valueWidth);
  return attention + 3 * (width + feedForward);
}
