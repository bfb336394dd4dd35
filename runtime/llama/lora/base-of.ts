// What a converter must know of the base model, from its GGUF metadata.
import type { LlamaModel } from "node-llama-cpp";
import type { BaseModel } from "./base-layout.ts";

export function baseOf(model: LlamaModel): BaseModel {
  const { metadata, architectureMetadata } = model.fileInfo;
  const attention = architectureMetadata.attention as Readonly<Record<string, unknown>> | undefined;
  const heads = Number(attention?.["head_count"] ?? 0);
  // Absent: every query head has its own key head.
  return {
    architecture: metadata.general.architecture,
    heads,
    keyHeads: Number(attention?.["head_count_kv"] ?? heads),
  };
}
