// A PEFT LoRA -> a GGUF LoRA. Pure. The bytes stay, dimensions are listed the other way round; only B of q and k is
// reordered where the base's rows are, and scales that differ from module to module go into B.
import { AdapterRefusal } from "./adapter-refusal.ts";
import { type BaseModel, checkArchitecture, ggufName, headsToReorder, oldRowOf } from "./base-layout.ts";
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
