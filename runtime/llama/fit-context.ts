// Calculates the tokens per sequence that fit into memory. Pure: the cost of a context is linear in its length, so two estimates
// determine all others.
import { LoadFailure } from "./load-failure.ts";

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

/** Throws LoadFailure when an asked length does not fit, or not even the shortest one. */
export function fitContext({ wanted, trained, small, large, budgetBytes }: ContextParams): number {
  const perToken = Math.max(1, (large.bytes - small.bytes) / (large.contextSize - small.contextSize));
  const room = small.contextSize + (budgetBytes - small.bytes) / perToken;
  const fits = room === Infinity ? Infinity : Math.floor(room / step) * step;
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
