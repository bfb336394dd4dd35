// What one instance of a run will take of its GPUs: as measured, as told, or as its files say; and what that becomes when its
// owner changes what runs.
import { loraMemory } from "./adapter-memory.ts";
import { modelEngines } from "./choose-engine.ts";
import type { Deployment, WeightsSource } from "./deployment.ts";
import { boundMemory } from "./memory-bound.ts";
import { type ModelShape, neededMemory, nominalBytes } from "./memory-estimate.ts";
import { expectedMemoryBytes } from "./resources.ts";
import { batchSizeOf } from "./standard-args.ts";
import type { MeasuredMemoryStore } from "./store.ts";

export interface MemoryClaim {
  /** Of one instance over all its GPUs; 0 unknown. */
  readonly memoryBytes: number;
  /** It will never take more: others of the account may have the rest of its GPU. */
  readonly isMemoryBound: boolean;
}

/**
 * Undefined where the files are not to be had, or do not say. The token is not kept. `format`: what of the repository is run;
 * undefined: whatever a language model has.
 */
export type ShapeOfRepo = (
  repo: string,
  revision: string,
  token: string | undefined,
  format?: WeightsSource["format"],
) => Promise<ModelShape | undefined>;

export interface MemorySources {
  /** From the hub; absent: nobody asks it. */
  readonly shapeOf?: ShapeOfRepo;
  /** What such a run took before; absent: nobody measures. */
  readonly measuredMemory?: MeasuredMemoryStore["find"];
}

/** What decides how much an instance takes. `maxBatchSize`: requests that it lets in at once. */
export type Run = Pick<
  Deployment,
  "version" | "engine" | "task" | "gpu" | "numGpus" | "maxBatchSize" | "contextLength" | "extraArgs" | "weights"
>;

/** Two runs of the same differ a little. */
const measuredMargin = 1.05;

/** `knownBytes`: of the model, beforehand; 0: its files are asked, with the token if there is one. */
export async function expectedMemory(
  sources: MemorySources,
  run: Run,
  knownBytes: number,
  token: () => Promise<string | undefined>,
): Promise<MemoryClaim> {
  const most = await mostMemory(sources, run);
  if (most !== undefined) return { memoryBytes: most, isMemoryBound: run.numGpus === 1 };
  return { memoryBytes: knownBytes || (await estimate(sources, run, token)), isMemoryBound: false };
}

/**
 * The same of a deployment that is to run something else. More requests at once never take less and fewer never more; of what
 * nobody can say anything new of, the claim stays as it was.
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
  // What bounds more requests bounds fewer.
  if (more <= 0 && now.isMemoryBound) return { memoryBytes: now.memoryBytes, isMemoryBound: true };
  if (claim.memoryBytes === 0 || now.memoryBytes === 0)
    return { ...claim, memoryBytes: now.memoryBytes || claim.memoryBytes };
  const memoryBytes = (more > 0 ? Math.max : Math.min)(now.memoryBytes, claim.memoryBytes);
  return { memoryBytes, isMemoryBound: false };
}

/** What it took it will take again, and no more; or it is told what to take. Undefined: neither is known. */
async function mostMemory({ measuredMemory }: MemorySources, run: Run): Promise<number | undefined> {
  const measured = await measuredMemory?.(run);
  return measured === undefined ? boundMemory(run) : Math.ceil(measured * measuredMargin);
}

/** From its own files; 0 unknown. */
async function estimate(
  { shapeOf }: MemorySources,
  run: Run,
  token: () => Promise<string | undefined>,
): Promise<number> {
  const { sizeBytes = 0, repo, revision, localPath } = run.weights;
  // A share of a host's memory holds what the runtime fits into it.
  if (sizeBytes > 0 || run.gpu === "other" || localPath !== undefined) return expectedMemoryBytes(sizeBytes);
  // What our own runtime gets of a repository that says no more is GGUF, whatever else lies there.
  const format = run.weights.format ?? (run.engine === "stoker" ? "gguf" : undefined);
  const isModel = (modelEngines as readonly string[]).includes(run.engine);
  const shape = isModel ? await shapeOf?.(repo, revision, await token(), format) : undefined;
  if (!shape) return 0;
  const { maxBatchSize, contextLength, numGpus: gpus } = run;
  const use = { maxBatchSize, contextLength, gpus, ...loraMemory(shape, run) };
  return neededMemory(shape, use, nominalBytes(run.gpu) * gpus);
}
