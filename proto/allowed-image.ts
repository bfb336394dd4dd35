// The operator of a host chooses its images, which its inventory lists: the agent refuses all others, and the control plane
// places nothing where it would be refused.

export interface ImageRules {
  /** Images of its own engines, as they are written. */
  readonly own: readonly string[];
  /**
   * Each an exact image (`name:tag`, `name@sha256:...`), a repository (`registry.example/owner/name`) or a prefix that ends in
   * `*`; the last two allow images by digest alone, because a tag may be anything tomorrow.
   */
  readonly allowed: readonly string[];
}

/** Undefined where the rules allow it. */
export function whyImageNotAllowed(image: string, { own, allowed }: ImageRules): "unlisted" | "no_digest" | undefined {
  if (own.includes(image) || (hasVersion(image) && allowed.includes(image))) return undefined;
  const [name = "", digest, ...rest] = image.split("@");
  const isNamed = allowed.some((rule) => isMatch(rule, name));
  if (!isNamed || rest.length > 0) return "unlisted";
  return digest !== undefined && /^sha256:[0-9a-f]{64}$/.test(digest) ? undefined : "no_digest";
}

const hasVersion = (image: string) => /[:@][^/]*$/.test(image);

function isMatch(rule: string, name: string): boolean {
  // A tag beside a digest has no meaning; the colon of a registry's port comes before a slash.
  const bare = name.replace(/:[^:/]*$/, "");
  return rule.endsWith("*") ? bare.startsWith(rule.slice(0, -1)) : bare === rule;
}
