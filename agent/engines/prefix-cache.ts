// Isolation of evaluated prompts between accounts, for each engine. Pure.
import { isAtLeast, versionOf } from "./image-version.ts";

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
