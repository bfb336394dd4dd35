// Chooses how an instance gets its GPUs, or why it cannot. Pure.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { type GpuAccess, type GpuVendor, vendorNames, vendorOf } from "../../proto/gpu-vendors.ts";
import { imageSetting, isForeignEngine } from "../../proto/model-engines.ts";
import { type HostFacts, type PlanOutcome, refused } from "./host-facts.ts";

type Spec = Pick<InstanceSpec__Output, "gpuUuids">;
type Wanted = Pick<InstanceSpec__Output, "gpuUuids" | "gpuMemoryBytes" | "engine">;

/** Maker of the GPUs; undefined: the instance has none. A host's GPUs of two makers are never mixed. */
export function vendorOfSpec({ gpuUuids }: Spec): GpuVendor | "mixed" | undefined {
  const vendors = new Set(gpuUuids.map(vendorOf).filter((vendor) => vendor !== undefined));
  return vendors.size > 1 ? "mixed" : [...vendors][0];
}

/** Setting of an agent with the image of an engine for this maker's GPUs. */
export const vendorImageSetting = (engine: string, vendor: GpuVendor): string =>
  `${isForeignEngine(engine) ? imageSetting(engine) : "STOKER_RUNTIME_IMAGE"}_${vendor.toUpperCase()}`;

/** Adds the devices to a plan for a container, and the variables to one for a process. */
export function withGpus(spec: Wanted, outcome: PlanOutcome, host: HostFacts): PlanOutcome {
  const vendor = vendorOfSpec(spec);
  if (!outcome.ok || vendor === undefined || outcome.plan.gpuUuids.length === 0) return outcome;
  if (vendor === "mixed")
    return refused("bad_spec", "the instance has GPUs of two makers; deploy it on GPUs of one type.");
  const { plan } = outcome;
  if (host.driver === "kubernetes") {
    // A resource or a claim of Kubernetes is a whole card.
    if (Number(spec.gpuMemoryBytes) > 0)
      return refused(
        "gpu_not_shared",
        "on Kubernetes each model has whole GPUs; deploy it without sharing, or on another host.",
      );
    return outcome;
  }
  const known = plan.gpuUuids.map((uuid) => host.gpuAccess?.(uuid));
  const access = known.filter((one) => one !== undefined);
  if (access.length < known.length)
    return vendor === "nvidia"
      ? outcome
      : refused("gpu_unavailable", `the host does not list its ${vendorNames[vendor]} GPUs now; check their tool.`);
  if (host.driver === "process") {
    // Builds for other makers also read NVIDIA's variable, in which their devices have no such names.
    const { CUDA_VISIBLE_DEVICES: _, ...env } = plan.env;
    return { ...outcome, plan: { ...plan, env: { ...env, ...visibleTo(access) } } };
  }
  const names = access.map(({ cdi }) => cdi.find((name) => host.cdiDevices?.().has(name)));
  if (names.every((name) => name !== undefined))
    return { ...outcome, plan: { ...plan, gpuAccess: { kind: "cdi", names } } };
  if (vendor === "nvidia") return outcome;
  const devices = [...new Set(access.flatMap((one) => one.devices))];
  if (access.some((one) => one.devices.length === 0))
    return refused(
      "gpu_unavailable",
      vendor === "apple"
        ? "containers on macOS cannot use the GPU; run the agent with STOKER_DRIVER=process."
        : `the container engine of this host lists no CDI device of its ${vendorNames[vendor]} GPUs, and their device files were not found; install the maker's container toolkit.`,
    );
  const groups = [...new Set(access.flatMap((one) => one.groups))];
  const libraries = [...new Set(access.flatMap((one) => one.libraries))];
  const mounts = [...plan.mounts, ...libraries.map((path) => ({ source: path, target: path, readOnly: true }))];
  return { ...outcome, plan: { ...plan, mounts, gpuAccess: { kind: "files", devices, groups } } };
}

/** Without isolation nothing else keeps a process off the GPUs of its neighbours. */
function visibleTo(access: readonly GpuAccess[]): Readonly<Record<string, string>> {
  const variable = access[0]?.visible.variable ?? "";
  return variable === "" ? {} : { [variable]: access.map(({ visible }) => visible.value).join(",") };
}
