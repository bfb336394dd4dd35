// Which images this host runs is its operator's choice. The agent holds to it whoever asks: a control plane that fell into
// other hands must not run what it likes here.
import type { HostFacts } from "./host-facts.ts";

type Rules = Pick<HostFacts, "runtimeImage" | "engineImages" | "allowedImages">;

/** What an instance runs in: its own image, else the host's. */
export function imageOf(
  spec: { readonly image: string; readonly engine: string },
  host: Pick<HostFacts, "runtimeImage" | "engineImages">,
): string {
  if (spec.engine === "vllm" || spec.engine === "sglang") return spec.image || (host.engineImages?.[spec.engine] ?? "");
  return spec.image || host.runtimeImage;
}

/**
 * Undefined where the host may run it, else why not. An entry of the list is an exact image (`name:tag`, `name@sha256:...`),
 * a repository (`registry.example/owner/name`) or a prefix that ends in `*`; the last two allow images by digest alone,
 * because a tag may be anything tomorrow.
 */
export function whyImageRefused(image: string, host: Rules): string | undefined {
  const own = [host.runtimeImage, host.engineImages?.vllm, host.engineImages?.sglang];
  if (own.includes(image) || (hasVersion(image) && host.allowedImages.includes(image))) return undefined;
  const shown = JSON.stringify(image.slice(0, 200));
  const [name = "", digest, ...rest] = image.split("@");
  const isNamed = host.allowedImages.some((rule) => isMatch(rule, name));
  if (!isNamed || rest.length > 0)
    return `the operator of this host does not allow the image ${shown}: deploy one that is allowed, or have it added to STOKER_ALLOWED_IMAGES there.`;
  if (digest === undefined || !/^sha256:[0-9a-f]{64}$/.test(digest))
    return `the image ${shown} is named without its digest; name it as ${name.split(":")[0]}@sha256:... and deploy again.`;
  return undefined;
}

const hasVersion = (image: string) => /[:@][^/]*$/.test(image);

function isMatch(rule: string, name: string): boolean {
  // A tag beside a digest says nothing; the colon of a registry's port stands before a slash.
  const bare = name.replace(/:[^:/]*$/, "");
  return rule.endsWith("*") ? bare.startsWith(rule.slice(0, -1)) : bare === rule;
}
