// What an engine takes of its GPU because it was told to take no more. Pure.
import type { Deployment } from "./deployment.ts";
import { nominalBytes } from "./memory-estimate.ts";

const gib = 1024 ** 3;
/** What CUDA and captured graphs take beside what vLLM counts. */
const besideBytes = gib;
/** GPUs have up to so much more than their names say: they count in GiB. */
const mostOverName = 1.07;

/**
 * Undefined: nothing bounds it to less than the whole GPU. Of vLLM alone: what SGLang is told is a share of what is free when it
 * starts, and of weights and cache without the work beside them.
 */
export function boundMemory(run: Pick<Deployment, "engine" | "gpu" | "numGpus" | "extraArgs">): number | undefined {
  const name = "--gpu-memory-utilization=";
  const share = run.extraArgs.find((arg) => arg.startsWith(name))?.slice(name.length);
  if (run.engine !== "vllm" || run.numGpus !== 1 || share === undefined) return undefined;
  const whole = nominalBytes(run.gpu);
  const bytes = Math.ceil(Number(share) * whole * mostOverName + besideBytes);
  return bytes < whole ? bytes : undefined;
}
