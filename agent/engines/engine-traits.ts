// Paths and abilities of each engine for the agent. Paths are those of its own server; customers reach none of them.

export interface EngineTraits {
  /** POST {lora_name, lora_path} / {lora_name}. */
  readonly loadLora: string;
  readonly unloadLora: string;
  /** The highest rank its plan starts it for; 0: adapters are not taken while it runs. */
  readonly maxLoraRank: number;
  readonly metrics: string;
  /** True if SIGTERM cuts running requests, so that the engine must be drained before. By the image's tag. */
  readonly abortsOnTerm: (version: string) => boolean;
}

export const engineTraits = {
  stoker: {
    loadLora: "/v1/load_lora_adapter",
    unloadLora: "/v1/unload_lora_adapter",
    maxLoraRank: 256,
    metrics: "/metrics",
    abortsOnTerm: () => false,
  },
  vllm: {
    loadLora: "/v1/load_lora_adapter",
    unloadLora: "/v1/unload_lora_adapter",
    maxLoraRank: 64,
    metrics: "/metrics",
    abortsOnTerm: (version) => !isAtLeast(versionOf(`:${version}`), 0, 18),
  },
  sglang: {
    loadLora: "/load_lora_adapter",
    unloadLora: "/unload_lora_adapter",
    // Its plan starts it without --enable-lora.
    maxLoraRank: 0,
    metrics: "/metrics",
    // It waits for them without a limit of its own: https://github.com/sgl-project/sglang/pull/1838
    abortsOnTerm: () => false,
  },
} as const satisfies Readonly<Record<string, EngineTraits>>;

interface EngineVersion {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
}

/** From an image such as `vllm/vllm-openai:v0.11.2@sha256:...`. Undefined where the tag says none: the newest that is known here is meant. */
export function versionOf(image: string): EngineVersion | undefined {
  const parts = /:v?(\d+)\.(\d+)(?:\.(\d+))?[^/]*$/.exec(image.split("@")[0] ?? "");
  return parts ? { major: Number(parts[1]), minor: Number(parts[2]), patch: Number(parts[3] ?? 0) } : undefined;
}

export function isAtLeast(version: EngineVersion | undefined, major: number, minor: number, patch = 0): boolean {
  if (version === undefined) return true;
  if (version.major !== major) return version.major > major;
  return version.minor === minor ? version.patch >= patch : version.minor > minor;
}

/**
 * `headers`: by the headers of proto/engine-headers.ts, where the engine knows them. `body`: by the body field `cache_salt`.
 * `none`: nothing is sent to a foreign server.
 */
export type CacheIsolation = "headers" | "body" | "none";

/** Returns true if the engine in that image separates caches by `cache_salt`. */
export function takesCacheSalt(engine: string, image: string): boolean {
  const version = versionOf(image);
  // Earlier versions may fall back to an engine that refuses requests with the field:
  // https://github.com/vllm-project/vllm/pull/17045
  if (engine === "vllm") return isAtLeast(version, 0, 11);
  // Earlier versions take the field and ignore it: https://github.com/sgl-project/sglang/pull/23300. A tag without a version
  // may be any of them.
  return engine === "sglang" && version !== undefined && isAtLeast(version, 0, 5, 18);
}

export function cacheIsolationOf(engine: string, image: string): CacheIsolation {
  if (engine === "external") return "none";
  return takesCacheSalt(engine, image) ? "body" : "headers";
}
