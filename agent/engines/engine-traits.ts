// Paths and abilities of each engine for the agent. Paths are those of its own server; customers reach none of them.
import { isAtLeast, versionOf } from "./image-version.ts";

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
