// GPU memory that LoRA adapters use beside their base, for the maximum number an instance may hold. Pure.
import { noAdapters } from "../../proto/engine-args.ts";
import { adaptedTasks, maxHeld } from "./adapter.ts";
import type { Deployment } from "./deployment.ts";
import { kvCacheBytes, type ModelShape } from "./memory-estimate.ts";

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
