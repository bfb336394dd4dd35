// Names and order of the tensors that a LoRA changes in a base model's GGUF file, by its architecture. Pure.
import { AdapterRefusal } from "./adapter-refusal.ts";

export interface BaseModel {
  /** `general.architecture` of the base. */
  readonly architecture: string;
  readonly heads: number;
  readonly keyHeads: number;
}

/** GGUF keeps rotary dimensions of these interleaved, Hugging Face as two halves. */
const interleaved = ["llama", "granite"];
const halves = ["qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3"];

const names: Readonly<Record<string, string>> = {
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.qkv_proj": "attn_qkv",
  "self_attn.o_proj": "attn_output",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.gate_up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
};

/** Throws AdapterRefusal for an architecture whose order of rows is not known: a guess would answer, but wrongly. */
export function checkArchitecture({ architecture }: BaseModel): void {
  if (!interleaved.includes(architecture) && !halves.includes(architecture))
    throw new AdapterRefusal(
      `PEFT adapters of architecture ${architecture} cannot be converted here (known: ${[...interleaved, ...halves].join(", ")}); give the adapter as a GGUF file`,
    );
}

/** `layers.3.self_attn.q_proj` -> `blk.3.attn_q.weight`; undefined when not understood. */
export function ggufName(module: string): string | undefined {
  const [, layer, part] = /(?:^|\.)layers\.(\d+)\.(.+)$/.exec(module) ?? [];
  const name = part === undefined ? undefined : names[part];
  return name === undefined ? undefined : `blk.${layer}.${name}.weight`;
}

/** Heads whose rows must be reordered; undefined: the rows stay as they are. */
export function headsToReorder(module: string, base: BaseModel): number | undefined {
  if (!interleaved.includes(base.architecture)) return undefined;
  if (module.endsWith(".q_proj")) return base.heads;
  return module.endsWith(".k_proj") ? base.keyHeads : undefined;
}

/** New row `head * d + 2i + j` is old row `head * d + j * d/2 + i`. */
export function oldRowOf(row: number, headSize: number): number {
  const at = row % headSize;
  return row - at + (at % 2) * (headSize / 2) + Math.floor(at / 2);
}
