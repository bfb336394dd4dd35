// What LoRA adapters take of GPU memory beside their base, when an instance holds as many as it may. Pure.
import { noAdapters } from "../../proto/engine-args.ts";
import { adaptedTasks, mostHeld } from "./adapter.ts";
import type { Deployment } from "./deployment.ts";
import { kvCacheBytes, type ModelShape } from "./memory-estimate.ts";

interface LoraMemory {
  readonly loraBytes: number;
  /** What of it is taken when the engine starts, whether adapters come or not. */
  readonly loraBytesAtStart: number;
}

/** The highest rank vLLM is started for (agent/engines/engine-traits.ts): each of its places is as large. */
const rankOfPlaces = 64;
/** Few adapters have a higher one. */
const usualRank = 64;
const bytesPerValue = 2;

const none: LoraMemory = { loraBytes: 0, loraBytesAtStart: 0 };

export function loraMemory(
  shape: ModelShape,
  use: Pick<Deployment, "contextLength" | "engine" | "task" | "extraArgs">,
): LoraMemory {
  const takesThem = adaptedTasks.has(use.task) && !use.extraArgs.includes(noAdapters);
  const held = takesThem ? mostHeld(use.engine, use.task) : 0;
  // Each adapter of a picture model is a changed copy of what it changes.
  if (shape.adaptedBytes !== undefined) return { ...none, loraBytes: held * shape.adaptedBytes };
  if (shape.loraWidth === undefined || held === 0) return none;
  const { loraWidth, layers } = shape;
  const bytesAt = (rank: number) => rank * loraWidth * layers * bytesPerValue;
  if (use.engine === "vllm") {
    const loraBytes = held * bytesAt(rankOfPlaces);
    return { loraBytes, loraBytesAtStart: loraBytes };
  }
  // In our own runtime each has keys and values of its own; one sequence is what it needs at the least.
  const own = kvCacheBytes(shape, { maxBatchSize: 1, contextLength: use.contextLength, gpus: 1 });
  return { ...none, loraBytes: held * (bytesAt(usualRank) + own) };
}

/** Of a transformer's layer as most are built. What experts of a mixture have for themselves is not counted: few adapters change it. */
export function loraWidthOf(layer: {
  readonly width: number;
  /** Values of all heads that ask, and of all that keep keys. */
  readonly queryWidth: number;
  readonly keyWidth: number;
  readonly valueWidth: number;
  /** Undefined: four times the width. */
  readonly feedForward: number | undefined;
}): number {
  const { width, queryWidth, keyWidth, valueWidth, feedForward = 4 * width } = layer;
  // Each change of a matrix is two halves, from its inputs to the rank and from the rank to its outputs.
  const attention = 2 * (width + queryWidth) + (width + keyWidth) + (width + valueWidth);
  return attention + 3 * (width + feedForward);
}
