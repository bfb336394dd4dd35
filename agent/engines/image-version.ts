// Version of an engine, from its image's tag: `vllm/vllm-openai:v0.11.2@sha256:...`.

export interface EngineVersion {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
}

/** Undefined where the tag says none: the newest that is known here is meant. */
export function versionOf(image: string): EngineVersion | undefined {
  const parts = /:v?(\d+)\.(\d+)(?:\.(\d+))?[^/]*$/.exec(image.split("@")[0] ?? "");
  return parts ? { major: Number(parts[1]), minor: Number(parts[2]), patch: Number(parts[3] ?? 0) } : undefined;
}

export function isAtLeast(version: EngineVersion | undefined, major: number, minor: number, patch = 0): boolean {
  if (version === undefined) return true;
  if (version.major !== major) return version.major > major;
  return version.minor === minor ? version.patch >= patch : version.minor > minor;
}
