// Converts a specification of the control plane into a plan for a driver. Pure; nothing the control plane sent is trusted with a path
// or an argument: a compromised control plane must not mean arbitrary mounts or flags.

import { whyStoredArgsRefused, whyVersionRefuses } from "../../proto/engine-args.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { vendorNames } from "../../proto/gpu-vendors.ts";
import { isModelEngine } from "../../proto/model-engines.ts";
import { engineVersion, imageOf, whyImageRefused } from "./allowed-image.ts";
import { vendorImageSetting, vendorOfSpec, withGpus } from "./gpu-grant.ts";
import { type HostFacts, type PlanExtras, type PlanOutcome, refused } from "./host-facts.ts";
import { planAgentInstance } from "./plan-agent-instance.ts";
import { planCustom } from "./plan-custom.ts";
import { planExternal } from "./plan-external.ts";
import { planLlamaServer } from "./plan-llama-server.ts";
import { planRental } from "./plan-rental.ts";
import { planSglang } from "./plan-sglang.ts";
import { planStoker } from "./plan-stoker.ts";
import { planVllm } from "./plan-vllm.ts";

const idForm = /^[A-Za-z0-9][\w.-]{0,63}$/;

const planners = { stoker: planStoker, vllm: planVllm, sglang: planSglang, llamacpp: planLlamaServer } as const;

/** Returns true if the engine reads weights that this host must fetch first. */
export function needsWeights(spec: InstanceSpec__Output): boolean {
  return isModelEngine(spec.engine);
}

/** Returns true if something must be fetched before a start: weights, or an image. */
export function needsFetch(spec: InstanceSpec__Output): boolean {
  return spec.engine !== "external";
}

/** `modelPath`: where the weights lie on this host; undefined for an engine that needs none. */
export function planInstance(
  spec: InstanceSpec__Output,
  modelPath: string | undefined,
  host: HostFacts,
  extras: PlanExtras = {},
): PlanOutcome {
  return withGpus(spec, planEngine(spec, modelPath, host, extras), host);
}

function planEngine(
  spec: InstanceSpec__Output,
  modelPath: string | undefined,
  host: HostFacts,
  extras: PlanExtras,
): PlanOutcome {
  if (!idForm.test(spec.instanceId) || !idForm.test(spec.deployId))
    return refused("bad_spec", "the instance's id cannot name a folder; the control plane sent it wrongly.");
  const badArgs = whyStoredArgsRefused(spec.engine, spec.extraArgs);
  if (badArgs !== undefined) return refused("bad_extra_args", badArgs);
  const badVersion = whyVersionRefuses(spec.engine, engineVersion(spec, host), spec.extraArgs);
  if (badVersion !== undefined) return refused("bad_extra_args", badVersion);
  const vendor = vendorOfSpec(spec);
  const isOther = vendor !== undefined && vendor !== "nvidia" && vendor !== "mixed";
  if (isOther && isModelEngine(spec.engine) && host.driver !== "process" && imageOf(spec, host) === "")
    return refused(
      "engine_unavailable",
      `the operator of this host named no image of this engine for its ${vendorNames[vendor]} GPUs (${vendorImageSetting(spec.engine, vendor)}); have it set, or deploy with another engine or on another host.`,
    );
  if (isOther && spec.engine === "container")
    return refused("engine_unavailable", `rentals need NVIDIA GPUs; this host has ${vendorNames[vendor]} GPUs.`);
  // Rentals have a list of their own.
  const isListed = host.driver !== "process" && spec.engine !== "external" && spec.engine !== "container";
  const forbidden = isListed ? whyImageRefused(imageOf(spec, host), host) : undefined;
  if (forbidden !== undefined) return refused("image_refused", forbidden);
  switch (spec.engine) {
    case "stoker":
    case "vllm":
    case "sglang":
    case "llamacpp":
      if (modelPath === undefined)
        return refused("bad_spec", "the engine needs weights and the deployment names none.");
      return planners[spec.engine](spec, modelPath, host, extras);
    case "custom":
      return planCustom(spec, host);
    case "external":
      return planExternal(spec);
    case "agent_instance":
      return planAgentInstance(spec, host);
    case "container":
      return planRental(spec, host);
    default:
      return refused(
        "unknown_engine",
        `this agent does not know the engine ${JSON.stringify(spec.engine.slice(0, 40))}; update the agent, or deploy with another engine.`,
      );
  }
}
