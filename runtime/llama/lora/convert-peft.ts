// A PEFT LoRA -> a GGUF LoRA. Pure. The bytes stay, dimensions are listed the other way round; only B of q and k is
// reordered where the base's rows are, and scales that differ from module to module go into B.

import { AdapterRefusal } from "./adapter-refusal.ts";
import { reorderRows, storedFloats } from "./float-bytes.ts";
import { type GgufTensor, writeGguf } from "./gguf-file.ts";
import { readPeftConfig } from "./peft-config.ts";
import { type FloatTensor, readSafetensors } from "./safetensors.ts";

interface Pair {
  a?: FloatTensor;
  b?: FloatTensor;
}

/** Throws AdapterRefusal. `config` and `weights` are the contents of the adapter's two files. */
export function convertPeft(config: string, weights: Uint8Array, base: BaseModel): Uint8Array {
  checkArchitecture(base);
  const peft = readPeftConfig(config);
  const modules = pairsOf(readSafetensors(weights));
  if (modules.size === 0) throw new AdapterRefusal("adapter_model.safetensors holds no LoRA matrices");
  // llama.cpp multiplies with alpha / rank of each pair, so with the common alpha most pairs need no other factor.
  const first = peft.scaleOf("", peft.rank) * peft.rank;
  const tensors = [...modules].flatMap(([module, pair]) => {
    const { a, b } = whole(module, pair);
    const name = ggufName(module);
    if (name === undefined) throw new AdapterRefusal(`the adapter changes ${module}, which is not understood`);
    const [rank, input] = a.shape as [number, number];
    const [output] = b.shape as [number, number];
    const factor = (peft.scaleOf(module, rank) * rank) / first;
    // A rounding error of the division is no reason to rewrite the matrix.
    const stored = storedFloats(b, Math.abs(factor - 1) < 1e-9 ? 1 : factor);
    const { type, bytes } = storedFloats(a);
    const down: GgufTensor = { name: `${name}.lora_a`, type, dimensions: [input, rank], bytes };
    const up = { name: `${name}.lora_b`, type: stored.type, dimensions: [rank, output] };
    return [down, { ...up, bytes: reordered(stored.bytes, module, output, base) }];
  });
  return writeGguf(
    {
      "general.architecture": { kind: "string", value: base.architecture },
      "general.type": { kind: "string", value: "adapter" },
      "adapter.type": { kind: "string", value: "lora" },
      "adapter.lora.alpha": { kind: "float32", value: first },
    },
    tensors,
  );
}

function reordered(bytes: Uint8Array, module: string, rows: number, base: BaseModel): Uint8Array {
  const heads = headsToReorder(module, base);
  if (heads === undefined) return bytes;
  const headSize = rows / heads;
  if (!Number.isInteger(headSize) || headSize % 2 !== 0)
    throw new AdapterRefusal(
      `${module} has ${rows} rows, which are not those of ${heads} heads: is it for another base model?`,
    );
  return reorderRows(bytes, bytes.byteLength / rows, (row) => oldRowOf(row, headSize));
}

function pairsOf(tensors: readonly FloatTensor[]): Map<string, Pair> {
  const pairs = new Map<string, Pair>();
  for (const tensor of tensors) {
    // Some exporters write the adapter's name into the key.
    const [, module, side] = /^(.+)\.lora_([AB])(?:\.[\w-]+)?\.weight$/.exec(tensor.name) ?? [];
    if (module === undefined) throw new AdapterRefusal(`the adapter holds ${tensor.name}, which is not understood`);
    const pair = pairs.get(module) ?? {};
    pair[side === "A" ? "a" : "b"] = tensor;
    pairs.set(module, pair);
  }
  return pairs;
}

function whole(module: string, { a, b }: Pair): Required<Pair> {
  if (!a || !b) throw new AdapterRefusal(`${module} has one of its two matrices only`);
  if (a.shape.length !== 2 || b.shape.length !== 2 || a.shape[0] !== b.shape[1])
    throw new AdapterRefusal(`the two matrices of ${module} do not fit each other: ${a.shape} and ${b.shape}`);
  return { a, b };
}

export interface BaseModel {
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
