// The version of an engine as its image's tag tells it: `vllm/vllm-openai:v0.11.2@sha256:...`.

export interface EngineVersion {
  readonly major: number;
  readonly minor: number;
}

/** Undefined where the tag says none: the newest that is known here is meant. */
export function versionOf(image: string): EngineVersion | undefined {
  const parts = /:v?(\d+)\.(\d+)[^/]*$/.exec(image.split("@")[0] ?? "");
  return parts ? { major: Number(parts[1]), minor: Number(parts[2]) } : undefined;
}

export function isAtLeast(version: EngineVersion | undefined, major: number, minor: number): boolean {
  return version === undefined || version.major > major || (version.major === major && version.minor >= minor);
}
