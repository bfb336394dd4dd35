// Paths and abilities of each engine for the agent. Paths are those of its own server; customers reach none of them.
import { type EngineVersion, isAtLeast } from "../../proto/engine-version.ts";

export interface SleepPaths {
  readonly sleep: string;
  readonly wake: string;
  readonly isAsleep: string;
}

export interface EngineTraits {
  /** POST {lora_name, lora_path} / {lora_name}. */
  readonly loadLora: string;
  readonly unloadLora: string;
  /** The highest rank its plan starts it for; 0: adapters are not taken while it runs. */
  readonly maxLoraRank: number;
  readonly metrics: string;
  /** How it gives its memory up while it is not used; undefined: the agent stops it, and starts it from the page cache. */
  readonly sleep?: SleepPaths;
  /** Its usage of several choices is that of the first. */
  readonly countsOneChoice?: boolean;
}

const sleepPaths = (level: "1" | "2") =>
  ({ sleep: `/sleep?level=${level}`, wake: "/wake_up", isAsleep: "/is_sleeping" }) as const;

export const engineTraits = {
  stoker: {
    loadLora: "/v1/load_lora_adapter",
    unloadLora: "/v1/unload_lora_adapter",
    maxLoraRank: 256,
    metrics: "/metrics",
    sleep: sleepPaths("1"),
  },
  vllm: {
    loadLora: "/v1/load_lora_adapter",
    unloadLora: "/v1/unload_lora_adapter",
    maxLoraRank: 64,
    metrics: "/metrics",
    // Level 1 keeps the weights in the memory of the host.
    sleep: sleepPaths("1"),
  },
  sglang: {
    loadLora: "/load_lora_adapter",
    unloadLora: "/unload_lora_adapter",
    // Its plan starts it without --enable-lora.
    maxLoraRank: 0,
    metrics: "/metrics",
  },
  llamacpp: {
    // It loads adapters at its start only: at run time this path sets the scales of those it has.
    loadLora: "/lora-adapters",
    unloadLora: "/lora-adapters",
    maxLoraRank: 0,
    metrics: "/metrics",
    countsOneChoice: true,
  },
} as const satisfies Readonly<Record<string, EngineTraits>>;

/** Undefined for an engine without traits here, such as a customer's image. */
export const traitsOf = (engine: string): EngineTraits | undefined =>
  Object.hasOwn(engineTraits, engine) ? engineTraits[engine as keyof typeof engineTraits] : undefined;

/**
 * `headers`: by the headers of proto/engine-headers.ts, where the engine knows them. `body`: by the body field `cache_salt`.
 * `none`: nothing is sent to a foreign server.
 */
export type CacheIsolation = "headers" | "body" | "none";

/** Returns true if the engine separates caches by `cache_salt`. */
export function takesCacheSalt(engine: string, version: EngineVersion | undefined): boolean {
  // Earlier versions may fall back to an engine that refuses requests with the field:
  // https://github.com/vllm-project/vllm/pull/17045
  if (engine === "vllm") return isAtLeast(version, 0, 11);
  // Earlier versions take the field and ignore it: https://github.com/sgl-project/sglang/pull/23300. A tag without a version
  // may be any of them.
  return engine === "sglang" && version !== undefined && isAtLeast(version, 0, 5, 18);
}

export function cacheIsolationOf(engine: string, version: EngineVersion | undefined): CacheIsolation {
  // llama.cpp's server knows neither: its plan starts it without a prompt cache.
  if (engine === "external" || engine === "llamacpp") return "none";
  return takesCacheSalt(engine, version) ? "body" : "headers";
}

/** Undefined: it cannot sleep in place. vLLM does so with CUDA only. */
export function sleepPathsOf({ engine, gpuUuids }: { readonly engine: string; readonly gpuUuids: readonly string[] }) {
  const isOnGpus = gpuUuids.some((uuid) => /^(GPU|MIG)-/.test(uuid));
  return engine === "vllm" && !isOnGpus ? undefined : traitsOf(engine)?.sleep;
}
