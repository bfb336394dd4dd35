// SGLang in the image the operator named.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { commonArgs, containerPlan, engineCaches, setsOwn } from "./container-plan.ts";
import { takesCacheSalt } from "./engine-traits.ts";
import type { HostFacts, PlanOutcome } from "./host-facts.ts";

const port = 30_000;

export function planSglang(spec: InstanceSpec__Output, modelPath: string, host: HostFacts): PlanOutcome {
  return containerPlan(spec, modelPath, host, {
    name: "SGLang",
    image: host.engineImages?.sglang,
    setting: "STOKER_SGLANG_IMAGE",
    port,
    takesAdapters: false,
    command: (image) => ["python3", "-m", "sglang.launch_server", ...argvOf(spec, modelPath, image)],
    env: { ...engineCaches, DO_NOT_TRACK: "1" },
  });
}

function argvOf(spec: InstanceSpec__Output, modelPath: string, image: string): string[] {
  const own = setsOwn(spec.extraArgs);
  const isShareable = spec.sharesPrefixCache || takesCacheSalt("sglang", image);
  return [
    ...commonArgs(spec, modelPath, port, { model: "--model-path", gpus: "--tp", batch: "--max-running-requests" }),
    ...(own("context-length") || spec.contextLength === 0 ? [] : ["--context-length", String(spec.contextLength)]),
    "--enable-metrics",
    "--enable-cache-report",
    ...(isShareable || own("disable-radix-cache") ? [] : ["--disable-radix-cache"]),
    ...spec.extraArgs,
  ];
}
