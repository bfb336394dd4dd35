// Expected GPU memory of one instance: measured, bounded by arguments, or estimated from its files; and its change when the
// owner changes what runs.

import { nominalBytes } from "../../proto/gpu.ts";
import { isModelEngine, readsGguf } from "../../proto/model-engines.ts";
import type { Deployment, WeightsSource } from "./deployment.ts";
import { estimateMemory, loraMemory, type ModelShape, neededMemory } from "./memory-estimate.ts";
import { expectedMemoryBytes } from "./resources.ts";
import { batchSizeOf } from "./standard-args.ts";

export interface MemoryClaim {
  /** Memory of one instance over all its GPUs; 0: unknown. */
  readonly memoryBytes: number;
  /** The memory has this fixed upper bound: other instances of the account may use the rest of its GPU. */
  readonly isMemoryBound: boolean;
}

/**
 * Undefined when the files are unavailable or incomplete. The token is not kept. `format`: weights to load; undefined: any
 * of a language model.
 */
export type ShapeOfRepo = (
  repo: string,
  revision: string,
  token: string | undefined,
  format?: WeightsSource["format"],
) => Promise<ModelShape | undefined>;

/** Runs equal in these fields use the same memory. */
export type MemoryRun = Pick<
  Deployment,
  "version" | "engine" | "gpu" | "numGpus" | "maxBatchSize" | "contextLength" | "extraArgs"
>;

/** Measured GPU memory of earlier instances, by run. */
export interface MeasuredMemoryStore {
  /** Stores the current memory of serving instances; returns the number of distinct runs. */
  measure(): Promise<number>;
  /** Maximum ever measured for such a run, over all its GPUs; undefined: never measured. */
  find(run: MemoryRun): Promise<number | undefined>;
}

export interface MemorySources {
  /** Reads the hub; undefined: do not ask it. */
  readonly shapeOf?: ShapeOfRepo;
  /** Measurements of earlier runs; undefined: none. */
  readonly measuredMemory?: MeasuredMemoryStore["find"];
}

/** Fields that determine an instance's memory. `maxBatchSize`: concurrent requests it accepts. */
export type Run = Pick<
  Deployment,
  "version" | "engine" | "task" | "gpu" | "numGpus" | "maxBatchSize" | "contextLength" | "extraArgs" | "weights"
>;

/** Two equal runs differ slightly. */
const measuredMargin = 1.05;

/** `knownBytes`: known need of the model; 0: read its files, with the token if there is one. */
export async function expectedMemory(
  sources: MemorySources,
  run: Run,
  knownBytes: number,
  token: () => Promise<string | undefined>,
): Promise<MemoryClaim> {
  const bound = await maxMemory(sources, run);
  if (bound !== undefined) return { memoryBytes: bound, isMemoryBound: run.numGpus === 1 };
  return { memoryBytes: knownBytes || (await estimate(sources, run, token)), isMemoryBound: false };
}

/**
 * The same for a changed deployment. More concurrent requests never need less and fewer never more; without new information
 * the claim stays.
 */
export async function changedMemory(
  sources: MemorySources,
  now: Deployment,
  next: Run,
  knownBytes: number,
  token: () => Promise<string | undefined>,
): Promise<MemoryClaim> {
  const more = next.maxBatchSize - batchSizeOf(now);
  const isSameRun =
    next.contextLength === now.contextLength && JSON.stringify(next.extraArgs) === JSON.stringify(now.extraArgs);
  const claim = await expectedMemory(sources, next, knownBytes, token);
  if (claim.isMemoryBound || !isSameRun) return { ...claim, memoryBytes: claim.memoryBytes || now.memoryBytes };
  // A bound for more requests also bounds fewer.
  if (more <= 0 && now.isMemoryBound) return { memoryBytes: now.memoryBytes, isMemoryBound: true };
  if (claim.memoryBytes === 0 || now.memoryBytes === 0)
    return { ...claim, memoryBytes: now.memoryBytes || claim.memoryBytes };
  const memoryBytes = (more > 0 ? Math.max : Math.min)(now.memoryBytes, claim.memoryBytes);
  return { memoryBytes, isMemoryBound: false };
}

/** Upper bound: as measured before, or as set by an argument. Undefined: neither is known. */
async function maxMemory({ measuredMemory }: MemorySources, run: Run): Promise<number | undefined> {
  const measured = await measuredMemory?.(run);
  return measured === undefined ? boundMemory(run) : Math.ceil(measured * measuredMargin);
}

/** Estimate from its own files; 0: unknown. */
async function estimate(
  { shapeOf }: MemorySources,
  run: Run,
  token: () => Promise<string | undefined>,
): Promise<number> {
  const { sizeBytes = 0, repo, revision, localPath } = run.weights;
  // It allocates the context of every request at start, and does not start with less.
  const isWhole = run.engine === "llamacpp";
  // A share of a host's memory: our runtime fits its context into it.
  if (sizeBytes > 0 || (run.gpu === "other" && !isWhole) || localPath !== undefined)
    return expectedMemoryBytes(sizeBytes);
  // Without a format these load GGUF, whatever else the repository contains.
  const format = run.weights.format ?? (readsGguf(run.engine) ? "gguf" : undefined);
  const shape = isModelEngine(run.engine) ? await shapeOf?.(repo, revision, await token(), format) : undefined;
  if (!shape) return 0;
  const { maxBatchSize, contextLength, numGpus: gpus } = run;
  const use = { maxBatchSize, contextLength, gpus, ...loraMemory(shape, run) };
  return isWhole ? estimateMemory(shape, use) : neededMemory(shape, use, nominalBytes(run.gpu) * gpus);
}

const gib = 1024 ** 3;
/** Memory for CUDA and captured graphs, which vLLM does not count. */
const besideBytes = gib;
/** Actual GPU memory relative to the size in its name, which counts in GiB. */
const maxOverNominal = 1.07;

/**
 * Undefined: no bound below the whole GPU. For vLLM only: SGLang's argument is a share of the free memory at start, and
 * covers weights and cache only.
 */
function boundMemory(run: Pick<Deployment, "engine" | "gpu" | "numGpus" | "extraArgs">): number | undefined {
  const name = "--gpu-memory-utilization=";
  const share = run.extraArgs.find((arg) => arg.startsWith(name))?.slice(name.length);
  if (run.engine !== "vllm" || run.numGpus !== 1 || share === undefined) return undefined;
  const whole = nominalBytes(run.gpu);
  const bytes = Math.ceil(Number(share) * whole * maxOverNominal + besideBytes);
  return bytes < whole ? bytes : undefined;
}
