// Chooses the execution providers to try, best first, and the warning when the best is unavailable. Pure.
export type Provider = "cpu" | "cuda" | "tensorrt" | "webgpu";

export interface ProviderParams {
  /** `auto`: the GPU where one was granted. */
  readonly wanted: "auto" | Provider;
  readonly hasGpu: boolean;
}

/** TensorRT compiles for minutes and WebGPU is an experiment, so both are used only where asked for. */
export function chooseProviders({ wanted, hasGpu }: ProviderParams): readonly Provider[] {
  switch (wanted) {
    case "auto":
      return hasGpu ? ["cuda", "cpu"] : ["cpu"];
    case "tensorrt":
      return ["tensorrt", "cuda", "cpu"];
    case "cpu":
      return ["cpu"];
    default:
      return [wanted, "cpu"];
  }
}

/** One sentence per model server, for /health and the log; undefined when the best one runs. `refused`: `cuda: why`. */
export function fallbackWarning(
  tried: readonly string[],
  used: string,
  refused: readonly string[],
): string | undefined {
  if (used === tried[0]) return undefined;
  const why = refused.map((text) => text.replace(/\s+/g, " ").trim().slice(0, 200)).join("; ");
  return `the model runs on ${used} and not on ${tried[0]}, which could not be used (${why}); answers are right and slower`;
}
