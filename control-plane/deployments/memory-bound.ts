// Upper bound of an engine's GPU memory from its arguments. Pure.
import type { Deployment } from "./deployment.ts";
import { nominalBytes } from "./memory-estimate.ts";

const gib = 1024 ** 3;
/** Memory for CUDA and captured graphs, which vLLM does not count. */
const besideBytes = gib;
/** Actual GPU memory relative to the size in its name, which counts in GiB. */
const maxOverNominal = 1.07;

/**
 * Undefined: no bound below the whole GPU. For vLLM only: SGLang's argument is a share of the free memory at start, and
 * covers weights and cache only.
 */
export function boundMemory(run: Pick<Deployment, "engine" | "gpu" | "numGpus" | "extraArgs">): number | undefined {
  const name = "--gpu-memory-utilization=";
  const share = run.extraArgs.find((arg) => arg.startsWith(name))?.slice(name.length);
  if (run.engine !== "vllm" || run.numGpus !== 1 || share === undefined) return undefined;
  const whole = nominalBytes(run.gpu);
  const bytes = Math.ceil(Number(share) * whole * maxOverNominal + besideBytes);
  return bytes < whole ? bytes : undefined;
}
