// Reads the shape of a model from its config.json, as the transformers library writes it.
import { loraWidthOf } from "./adapter-memory.ts";
import type { ModelShape } from "./memory-estimate.ts";

/** Undefined when a required field is missing. */
export function readConfigShape(value: unknown, weightsBytes: number): ModelShape | undefined {
  const whole = asObject(value);
  // Multimodal models keep the language model's part in a nested object.
  const config = { ...whole, ...asObject(whole["text_config"]) };
  const number = (key: string) => {
    const found = config[key];
    return typeof found === "number" && found > 0 ? found : undefined;
  };
  const layers = number("num_hidden_layers") ?? number("n_layer");
  const heads = number("num_attention_heads") ?? number("n_head");
  const width = number("hidden_size") ?? number("n_embd");
  const contextLength = number("max_position_embeddings") ?? number("n_positions");
  if (!layers || !heads || !width || !contextLength) return undefined;
  const headLength = number("head_dim") ?? Math.floor(width / heads);
  const kvHeads = number("num_key_value_heads") ?? heads;
  return {
    ...{ weightsBytes, layers, contextLength, kvHeads, keyLength: headLength, valueLength: headLength },
    loraWidth: loraWidthOf({
      ...{ width, queryWidth: heads * headLength, keyWidth: kvHeads * headLength, valueWidth: kvHeads * headLength },
      feedForward: number("intermediate_size") ?? number("n_inner"),
    }),
  };
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
