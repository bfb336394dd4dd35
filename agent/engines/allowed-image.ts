// Enforces the operator's list of images for every request, so that a compromised control plane cannot run arbitrary images.
import { type ImageRules, whyImageNotAllowed } from "../../proto/allowed-image.ts";
import { type EngineVersion, readVersion } from "../../proto/engine-version.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { foreignEngines, isForeignEngine } from "../../proto/model-engines.ts";
import { vendorOfSpec } from "./gpu-grant.ts";
import type { HostFacts } from "./host-facts.ts";

type Rules = Pick<HostFacts, "runtimeImage" | "engineImages" | "vendorImages" | "allowedImages">;

/** Returns the image of an instance: its own, otherwise the host's. */
export function imageOf(
  spec: { readonly image: string; readonly engine: string; readonly gpuUuids?: readonly string[] },
  host: Pick<HostFacts, "runtimeImage" | "engineImages" | "vendorImages">,
): string {
  const vendor = vendorOfSpec({ gpuUuids: [...(spec.gpuUuids ?? [])] });
  // An image for one maker's GPUs does not find those of another.
  if (vendor !== undefined && vendor !== "nvidia" && vendor !== "mixed") {
    const images: Readonly<Record<string, string | undefined>> = host.vendorImages?.[vendor] ?? {};
    return spec.image || (images[spec.engine] ?? "");
  }
  if (isForeignEngine(spec.engine)) return spec.image || (host.engineImages?.[spec.engine] ?? "");
  return spec.image || host.runtimeImage;
}

type Build = Pick<HostFacts, "driver" | "runtimeImage" | "engineImages" | "vendorImages" | "enginePrograms">;

/** Returns the version of the instance's engine on this host: of the program, or by the image's tag. Undefined: neither says. */
export function engineVersion(spec: InstanceSpec__Output, host: Build): EngineVersion | undefined {
  if (host.driver === "process")
    return isForeignEngine(spec.engine) ? host.enginePrograms?.[spec.engine]?.version : undefined;
  return tagVersion(imageOf(spec, host));
}

/** Parts of the name of an image such as `vllm/vllm-openai:v0.11.2@sha256:...`. */
function tagVersion(image: string): EngineVersion | undefined {
  const tag = /:([^/:]+)$/.exec(image.split("@")[0] ?? "")?.[1];
  return tag === undefined ? undefined : readVersion(tag);
}

export function imageRules({ runtimeImage, engineImages, vendorImages = {}, allowedImages }: Rules): ImageRules {
  const variants = Object.values(vendorImages).flatMap((images) => Object.values(images));
  const own = [
    runtimeImage,
    ...foreignEngines.map((engine) => engineImages?.[engine] ?? ""),
    ...variants.map((image) => image ?? ""),
  ];
  return { own: own.filter((image) => image !== ""), allowed: allowedImages };
}

/** Undefined where the host may run it, else why not. */
export function whyImageRefused(image: string, host: Rules): string | undefined {
  const shown = JSON.stringify(image.slice(0, 200));
  switch (whyImageNotAllowed(image, imageRules(host))) {
    case undefined:
      return undefined;
    case "unlisted":
      return `the operator of this host does not allow the image ${shown}: deploy one that is allowed, or have it added to STOKER_ALLOWED_IMAGES there.`;
    case "no_digest":
      return `the image ${shown} is named without its digest; name it as ${image.split("@")[0]?.split(":")[0]}@sha256:... and deploy again.`;
  }
}
