// vLLM in the image the operator named. The module is run, not the image's entry point: that one changed between versions.
import { noAdapters } from "../../proto/engine-args.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { commonArgs, containerPlan, engineCaches, setsOwn } from "./container-plan.ts";
import { engineTraits, isAtLeast, takesCacheSalt, versionOf } from "./engine-traits.ts";
import type { HostFacts, PlanOutcome } from "./host-facts.ts";

const port = 8000;
/** Longer than the work after our own drain, shorter than the time limit of the stop. */
const shutdownSeconds = 8;
const maxLoras = 8;
const adapterArgs = [
  ...["--enable-lora", "--max-loras", String(maxLoras)],
  ...["--max-lora-rank", String(engineTraits.vllm.maxLoraRank)],
];
const generations: ReadonlySet<string> = new Set(["text-generation", "image-text-to-text"]);
const rope = "--rope-scaling=";
const aloneShare = 0.9;
/** Share of its part of a shared GPU. */
const ownShare = 0.94;

export function planVllm(spec: InstanceSpec__Output, modelPath: string, host: HostFacts): PlanOutcome {
  return containerPlan(spec, modelPath, host, {
    name: "vLLM",
    image: host.engineImages?.vllm,
    setting: "STOKER_VLLM_IMAGE",
    port,
    takesAdapters: true,
    command: (image) => ["python3", "-m", "vllm.entrypoints.openai.api_server", ...argvOf(spec, modelPath, image)],
    env: {
      ...engineCaches,
      VLLM_CACHE_ROOT: "/tmp/vllm",
      // Adapters come and go on a running base; only the agent reaches these paths.
      VLLM_ALLOW_RUNTIME_LORA_UPDATING: "True",
      VLLM_NO_USAGE_STATS: "1",
      DO_NOT_TRACK: "1",
    },
  });
}

function argvOf(spec: InstanceSpec__Output, modelPath: string, image: string): string[] {
  const version = versionOf(image);
  const own = setsOwn(spec.extraArgs);
  return [
    ...commonArgs(spec, modelPath, port, { model: "--model", gpus: "--tensor-parallel-size", batch: "--max-num-seqs" }),
    ...(own("gpu-memory-utilization") ? [] : ["--gpu-memory-utilization", memoryShareOf(spec)]),
    ...(own("max-model-len") || spec.contextLength === 0 ? [] : ["--max-model-len", String(spec.contextLength)]),
    ...prefixCaching(spec, image),
    "--enable-prompt-tokens-details",
    ...(spec.extraArgs.includes(noAdapters) ? [] : adapterArgs),
    ...(isAtLeast(version, 0, 18) ? ["--shutdown-timeout", String(shutdownSeconds)] : []),
    ...(isAtLeast(version, 0, 16) ? ["--disable-access-log-for-endpoints", "/metrics,/health"] : []),
    ...spec.extraArgs.filter((arg) => !planned.has(arg)).map((arg) => inWordsOf(version, arg)),
  ];
}

const [cacheOn, cacheOff] = ["--enable-prefix-caching", "--no-enable-prefix-caching"];
/** Arguments of the customer that the plan writes itself. */
const planned: ReadonlySet<string> = new Set([noAdapters, cacheOn, cacheOff]);

/** Off where the engine could not keep accounts apart: it takes `cache_salt` with generations only. */
function prefixCaching({ extraArgs, task, sharesPrefixCache }: InstanceSpec__Output, image: string): readonly string[] {
  const isGeneration = task === "" || generations.has(task);
  const isSafe = sharesPrefixCache || (isGeneration && takesCacheSalt("vllm", image));
  return [isSafe && !extraArgs.includes(cacheOff) ? cacheOn : cacheOff];
}

function inWordsOf(version: ReturnType<typeof versionOf>, arg: string): string {
  // https://github.com/vllm-project/vllm/pull/28006
  const isGone = arg.startsWith(rope) && isAtLeast(version, 0, 12);
  return isGone ? `--hf-overrides={"rope_scaling":${arg.slice(rope.length)}}` : arg;
}

/**
 * Share of the GPU's memory, independent of other processes: vLLM counts only its own memory, and starts only if so much is free.
 * The share includes CUDA's own memory.
 * https://docs.vllm.ai/en/v0.18.0/cli/serve/#-gpu-memory-utilization
 */
function memoryShareOf({ gpuShare }: InstanceSpec__Output): string {
  const isShared = gpuShare > 0 && gpuShare < 1;
  const share = isShared ? Math.min(aloneShare, Math.floor(gpuShare * ownShare * 1000) / 1000) : aloneShare;
  return String(share);
}
