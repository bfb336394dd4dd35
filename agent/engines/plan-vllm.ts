// vLLM in the image the operator named. The module is run, not the image's entry point: that one changed between versions.
import { basename } from "node:path";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { containerPlan, driverGpus, engineCaches, setsOwn } from "./container-plan.ts";
import { engineTraits } from "./engine-traits.ts";
import type { HostFacts, PlanOutcome } from "./host-facts.ts";
import { isAtLeast, versionOf } from "./image-version.ts";

const port = 8000;
/** Longer than what is left to do after our own drain, shorter than the stop's patience. */
const shutdownSeconds = 8;
const mostLoras = 8;

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
    "--model",
    `/models/${basename(modelPath)}`,
    "--served-model-name",
    spec.servedModelName,
    "--host",
    "0.0.0.0",
    "--port",
    String(port),
    "--tensor-parallel-size",
    String(Math.max(1, driverGpus(spec).length)),
    "--max-num-seqs",
    String(Math.max(1, spec.maxBatchSize)),
    ...(own("gpu-memory-utilization") ? [] : ["--gpu-memory-utilization", "0.90"]),
    ...(own("max-model-len") || spec.contextLength === 0 ? [] : ["--max-model-len", String(spec.contextLength)]),
    ...(own("enable-prefix-caching") || own("no-enable-prefix-caching") ? [] : ["--enable-prefix-caching"]),
    "--enable-prompt-tokens-details",
    "--enable-lora",
    "--max-loras",
    String(mostLoras),
    "--max-lora-rank",
    String(engineTraits.vllm.mostLoraRank),
    ...(isAtLeast(version, 0, 18) ? ["--shutdown-timeout", String(shutdownSeconds)] : []),
    ...(isAtLeast(version, 0, 16) ? ["--disable-access-log-for-endpoints", "/metrics,/health"] : []),
    ...spec.extraArgs,
  ];
}
