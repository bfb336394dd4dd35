// Chooses the engine for a repository by its weight formats and the GPU. Pure.
import type { GpuType } from "../../proto/gpu.ts";
import type { RepoLook, WeightsFormat } from "../catalog/hub-look.ts";

export const modelEngines = ["stoker", "vllm", "sglang"] as const;
export type ModelEngine = (typeof modelEngines)[number];

export interface EngineChoice {
  readonly engine: ModelEngine;
  /** Format to load; undefined: one GGUF model, chosen by the agent. */
  readonly format: WeightsFormat | undefined;
}

/** For a language model: an engine, or why none fits: what happened, why, what would work. */
export function chooseEngine(
  requested: ModelEngine | undefined,
  gpu: GpuType,
  look: RepoLook | undefined,
): EngineChoice | { readonly why: string } {
  if (requested !== undefined) return { engine: requested, format: requested === "stoker" ? undefined : "safetensors" };
  // The host may reach what is unreachable from here, and reports what it finds.
  if (look?.kind !== "found") return { engine: "stoker", format: undefined };
  const { formats } = look;
  if (gpu !== "other" && formats.has("safetensors")) return { engine: "vllm", format: "safetensors" };
  if (formats.has("gguf")) return { engine: "stoker", format: undefined };
  // A model that reads pictures is also a language model in ONNX.
  if (formats.has("onnx") && look.task === "image-text-to-text") return { engine: "stoker", format: "onnx" };
  if (formats.has("safetensors"))
    return {
      why: "the repository has safetensors weights, which require vLLM and a GPU of a named type; choose one, or a repository with GGUF weights.",
    };
  if (formats.has("onnx"))
    return {
      why: "ONNX weights are not supported for language models; deploy it with POST /deploy/hf/, or use a repository with GGUF or safetensors weights.",
    };
  return {
    why: "the repository has no weights in a supported format (safetensors or GGUF); pickled files are not loaded because they can run code.",
  };
}
