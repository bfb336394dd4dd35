// Requirements on a host independent of its free capacity. Cheap: every candidate is checked here.
import { whyImageNotAllowed } from "../../proto/allowed-image.ts";
import type { HostView } from "../fleet/host.ts";
import type { Want } from "./want.ts";

/** Returns why the host is excluded, or undefined. */
export function refuse(want: Want, host: HostView): string | undefined {
  if (!mayUseHost(want, host)) return `not the required host (${want.host})`;
  if (host.state !== "live") return `${host.state}: silent for ${Math.round(host.silentMs / 1000)} s`;
  if (!host.schedulable) return host.condition || "its data path is not verified yet";
  if (want.gpusPerInstance > 0 && !canUseGpus(want.engine, host.inventory))
    return "its container engine has no nvidia runtime; install the NVIDIA container toolkit";
  const { drivers, rentalImages, rentalsUnavailable } = host.inventory;
  switch (want.engine) {
    case "container":
      if (rentalImages?.includes(want.rentalImage ?? "")) return undefined;
      return rentalsUnavailable || `it does not offer the image ${want.rentalImage ?? ""}`;
    case "custom":
      return whyNoContainer(want, host);
    case "agent_instance":
      return whyNoContainer(want, host) ?? (host.inventory.containers?.volumesUnavailable || undefined);
    case "external":
      return undefined;
    case "vllm":
    case "sglang":
      // A host lists them as drivers once its operator has allowed an image for them.
      if (drivers.includes(want.engine)) return undefined;
      return `its operator set no image for ${want.engine} (STOKER_${want.engine.toUpperCase()}_IMAGE)`;
    default:
      if (drivers.includes("docker") || drivers.includes("process")) return undefined;
      return "it has no driver that starts model servers";
  }
}

/** True when no host is required, or it is this one. */
export const mayUseHost = ({ host: required }: Want, host: HostView): boolean =>
  required === undefined || required === host.id || required === host.hostname;

/**
 * Reports whether instances of the engine can use the host's GPUs: containers need the nvidia runtime. For rentals the agent
 * decides, and offers no images without it.
 */
export function canUseGpus(engine: Want["engine"], inventory: HostView["inventory"]): boolean {
  const { drivers, nvidiaDriverVersion, hasNvidiaRuntime } = inventory;
  const isContainer =
    engine === "stoker" ? !drivers.includes("process") : engine !== "external" && engine !== "container";
  return !isContainer || nvidiaDriverVersion === "" || hasNvidiaRuntime;
}

/** The agent would refuse it, and the instance would stay assigned there. */
function whyNoContainer({ image }: Want, { inventory }: HostView): string | undefined {
  if (!inventory.drivers.includes("docker")) return "it has no container engine";
  const rules = inventory.containers;
  if (rules === undefined) return undefined;
  if (rules.unavailable !== "") return rules.unavailable;
  switch (image && whyImageNotAllowed(image, rules.images)) {
    case "unlisted":
      return `its operator does not allow the image ${image} (STOKER_ALLOWED_IMAGES)`;
    case "no_digest":
      return `its operator allows the image ${image} only by digest (name@sha256:...)`;
    default:
      return undefined;
  }
}
