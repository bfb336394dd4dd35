// SGLang in the image the operator named.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { commonArgs, type EnginePlace, enginePlan, setsOwn } from "./container-plan.ts";
import { takesCacheSalt } from "./engine-traits.ts";
import type { HostFacts, PlanOutcome } from "./host-facts.ts";

export function planSglang(spec: InstanceSpec__Output, modelPath: string, host: HostFacts): PlanOutcome {
  return enginePlan(spec, modelPath, host, {
    name: "SGLang",
    key: "sglang",
    port: 30_000,
    takesAdapters: false,
    command: () => ["python3", "-m", "sglang.launch_server"],
    argv: (place) => argvOf(spec, place),
    env: { DO_NOT_TRACK: "1" },
  });
}

function argvOf(spec: InstanceSpec__Output, place: EnginePlace): string[] {
  const own = setsOwn(spec.extraArgs);
  const isShareable = spec.sharesPrefixCache || takesCacheSalt("sglang", place.version);
  return [
    ...commonArgs(spec, place, { model: ["--model-path"], gpus: "--tp-size", batch: "--max-running-requests" }),
    ...(own("context-length") || spec.contextLength === 0 ? [] : ["--context-length", String(spec.contextLength)]),
    "--enable-metrics",
    "--enable-cache-report",
    ...(isShareable || own("disable-radix-cache") ? [] : ["--disable-radix-cache"]),
    ...spec.extraArgs,
  ];
}
