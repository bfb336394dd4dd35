// What an instance takes of GPU memory, from the model's own files: weights, keys and values of all sequences, adapters, and
// what engines keep beside them. Pure. A measured run is believed instead (measured-memory.ts).

/** As a model's files say it. */
export interface ModelShape {
  readonly weightsBytes: number;
  readonly layers: number;
  /** Heads that keep keys and values. */
  readonly kvHeads: number;
  /** Values per head. */
  readonly keyLength: number;
  readonly valueLength: number;
  /** Tokens it was trained for. */
  readonly contextLength: number;
  /** Values that an adapter of rank 1 has in one layer, over all it may change; undefined: it takes none of that kind. */
  readonly loraWidth?: number;
  /** Of a picture model: what each adapter has as a changed copy of its own. */
  readonly adaptedBytes?: number;
}

/** Of graphs, which keep no keys and values between their runs. */
export const graphShape = { layers: 0, kvHeads: 0, keyLength: 0, valueLength: 0, contextLength: 0 } as const;

export interface MemoryUse {
  /** Most sequences at once. */
  readonly maxBatchSize: number;
  /** Tokens per sequence; 0: the model's own. */
  readonly contextLength: number;
  readonly gpus: number;
  /** Of all adapters held at once. */
  readonly loraBytes?: number;
  /** What of that the engine takes when it starts. */
  readonly loraBytesAtStart?: number;
  /** 2 for half precision, 1 for 8-bit keys and values. */
  readonly bytesPerKvValue?: number;
}

const mib = 1024 ** 2;
/** CUDA's own context, kernels and buffers of the collective operations. */
const perGpuBytes = 700 * mib;
/** Activations and the fragments between allocations. */
const workShare = 0.08;

/** Over all its GPUs. */
export function estimateMemory(shape: ModelShape, use: MemoryUse): number {
  const work = Math.max(256 * mib, shape.weightsBytes * workShare);
  const parts = shape.weightsBytes + kvCacheBytes(shape, use) + (use.loraBytes ?? 0) + work;
  return Math.ceil(parts + perGpuBytes * Math.max(1, use.gpus));
}

/** Keys and values of every sequence at its full length. */
export function kvCacheBytes(shape: ModelShape, use: MemoryUse): number {
  const tokens = Math.max(1, use.maxBatchSize) * (use.contextLength || shape.contextLength);
  const perToken = shape.layers * shape.kvHeads * (shape.keyLength + shape.valueLength);
  return tokens * perToken * (use.bytesPerKvValue ?? 2);
}

/**
 * What must be free: all of it where the GPUs that were asked for can hold that; else without adapters that come later, which
 * find room or wait for it; else what serves one sequence at its full length, since engines fit the others into what is left.
 * `gpuBytes`: of all its GPUs; 0 unknown.
 */
export function neededMemory(shape: ModelShape, use: MemoryUse, gpuBytes: number): number {
  const bare = { ...use, loraBytes: use.loraBytesAtStart ?? 0 };
  const ways = [use, bare, { ...bare, maxBatchSize: 1 }].map((way) => estimateMemory(shape, way)) as [
    number,
    ...number[],
  ];
  return gpuBytes === 0 ? ways[0] : (ways.find((bytes) => bytes <= gpuBytes) ?? (ways.at(-1) as number));
}

/** Of a GPU of the type, by its name; 0 where the name says none. */
export function nominalBytes(gpu: string): number {
  return Number(/-(\d+)GB$/.exec(gpu)?.[1] ?? 0) * 1e9;
}
