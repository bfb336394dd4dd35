import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { readGgufFileInfo } from "node-llama-cpp";
import { describe, expect, it } from "vitest";
import { adapterFile } from "../../../../runtime/llama/lora/adapter-file.ts";
import { AdapterRefusal } from "../../../../runtime/llama/lora/adapter-refusal.ts";
import { convertPeft, oldRowOf } from "../../../../runtime/llama/lora/convert-peft.ts";

const llama = { architecture: "llama", heads: 2, keyHeads: 1 };
const q = "base_model.model.model.layers.0.self_attn.q_proj";
const v = "base_model.model.model.layers.3.self_attn.v_proj";
const config = (more: object = {}) => JSON.stringify({ peft_type: "LORA", r: 1, lora_alpha: 2, ...more });

interface Tensor {
  readonly dtype?: string;
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

/** A safetensors file of float32 (or, by its upper half, bfloat16) tensors. */
function safetensors(tensors: Readonly<Record<string, Tensor>>): Uint8Array {
  const parts: Buffer[] = [];
  let at = 0;
  const entries = Object.entries(tensors).map(([name, { dtype = "F32", shape, values }]) => {
    const floats = Buffer.from(new Float32Array(values).buffer);
    const bytes =
      dtype === "BF16" ? Buffer.concat(values.map((_, i) => floats.subarray(i * 4 + 2, i * 4 + 4))) : floats;
    parts.push(bytes);
    at += bytes.length;
    return [name, { dtype, shape, data_offsets: [at - bytes.length, at] }];
  });
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, ...parts]);
}

const pair = (module: string, a: readonly number[], b: readonly number[], dtype?: string) => ({
  [`${module}.lora_A.weight`]: { shape: [1, a.length], values: a, ...(dtype ? { dtype } : {}) },
  [`${module}.lora_B.weight`]: { shape: [b.length, 1], values: b, ...(dtype ? { dtype } : {}) },
});

/** Float values at the end of the file, where the last tensor's padded data stand. */
function lastFloats(file: Uint8Array, count: number): number[] {
  const padded = Math.ceil((count * 4) / 32) * 32;
  const view = new DataView(file.buffer, file.byteOffset + file.byteLength - padded);
  return Array.from({ length: count }, (_, i) => view.getFloat32(i * 4, true));
}

describe("the converter of PEFT adapters", () => {
  it("reorders rows of B where the base keeps rotary dimensions interleaved, and nowhere else", () => {
    expect(Array.from({ length: 8 }, (_, row) => oldRowOf(row, 4))).toEqual([0, 2, 1, 3, 4, 6, 5, 7]);
    const rows = [0, 1, 2, 3, 4, 5, 6, 7];
    const of = (module: string, base: typeof llama) =>
      lastFloats(convertPeft(config(), safetensors(pair(module, [1], rows)), base), 8);
    expect(of(q, llama)).toEqual([0, 2, 1, 3, 4, 6, 5, 7]);
    expect(of(v, llama)).toEqual(rows);
    expect(of(q, { ...llama, architecture: "qwen2" })).toEqual(rows);
  });

  it("widens bfloat16 and folds an alpha that differs from the others into B", () => {
    const file = safetensors(pair(v, [1.5], [0.5, -2], "BF16"));
    expect(lastFloats(convertPeft(config(), file, llama), 2)).toEqual([0.5, -2]);
    const louder = convertPeft(config({ alpha_pattern: { v_proj: 6 } }), file, llama);
    expect(lastFloats(louder, 2)).toEqual([1.5, -6]);
  });

  it("keeps PEFT's scale under rank stabilisation: alpha times the root of the rank", () => {
    const file = convertPeft(config({ r: 4, lora_alpha: 3, use_rslora: true }), rankFour(), llama);
    const key = Buffer.from("adapter.lora.alpha");
    const at = Buffer.from(file).indexOf(key) + key.length + 4;
    expect(new DataView(file.buffer, file.byteOffset).getFloat32(at, true)).toBe(6);
  });

  it.each([
    [{ peft_type: "IA3" }, /only LORA/],
    [{ use_dora: true }, /DoRA/],
    [{ bias: "all" }, /bias/],
    [{ modules_to_save: ["lm_head"] }, /modules_to_save/],
    [{ fan_in_fan_out: true }, /fan_in_fan_out/],
    [{ r: 512 }, /rank is 512/],
    [{ rank_pattern: { v_proj: 8 } }, /rank 1, its configuration says 8/],
    [{ alpha_pattern: { "(a+)+$": 8 } }, /names of modules/],
  ])("refuses %j with the reason", (more, why) => {
    expect(() => convertPeft(config(more), safetensors(pair(v, [1], [1])), llama)).toThrow(why);
  });

  it.each([
    ["half a pair", { [`${v}.lora_A.weight`]: { shape: [1, 1], values: [1] } }, /one of its two matrices/],
    ["an unknown module", pair("model.layers.0.mixer.in_proj", [1], [1]), /mixer.in_proj, which is not understood/],
    ["an embedding", { "model.embed_tokens.lora_embedding_A": { shape: [1, 1], values: [1] } }, /not understood/],
    ["a tensor longer than its place", { [`${v}.lora_A.weight`]: { shape: [9, 9], values: [1] } }, /does not fill/],
    ["another base's heads", pair(q, [1], [1, 2, 3]), /another base model/],
  ])("refuses %s", (_, tensors, why) => {
    expect(() => convertPeft(config(), safetensors(tensors as never), llama)).toThrow(why);
  });

  it("refuses a file that is none, and an architecture whose rows it does not know", () => {
    expect(() => convertPeft(config(), Buffer.from("no"), llama)).toThrow(/damaged/);
    expect(() => convertPeft(config(), Buffer.alloc(64, 0xff), llama)).toThrow(/longer than the file/);
    expect(() => convertPeft(config(), safetensors({}), { ...llama, architecture: "mamba" })).toThrow(/mamba cannot/);
  });

  const folder = join(import.meta.dirname, "../../../../../shared/models/smollm2-pirate-lora");
  const isThere = existsSync(folder);
  if (!isThere) process.stderr.write(`\nNOT PROVEN: conversion of a real adapter: nothing at ${folder}\n`);
  it.runIf(isThere)("makes of a real adapter the tensors of llama.cpp's own converter, value by value", async () => {
    const weights = readFileSync(join(folder, "adapter_model.safetensors"));
    const base = { architecture: "llama", heads: 9, keyHeads: 3 };
    const made = convertPeft(readFileSync(join(folder, "adapter_config.json"), "utf8"), weights, base);
    const expected = await tensorsOf(join(folder, "expected-lora-f32.gguf"));
    const actual = await tensorsOf(made);
    expect(actual.size).toBe(240);
    expect([...actual.keys()].sort()).toEqual([...expected.keys()].sort());
    for (const [name, tensor] of expected) {
      expect(actual.get(name)?.shape, name).toEqual(tensor.shape);
      expect(actual.get(name)?.bytes.equals(tensor.bytes), name).toBe(true);
    }
  });
});

function rankFour(): Uint8Array {
  return safetensors({
    [`${v}.lora_A.default.weight`]: { shape: [4, 1], values: [1, 2, 3, 4] },
    [`${v}.lora_B.default.weight`]: { shape: [1, 4], values: [1, 2, 3, 4] },
  });
}

async function tensorsOf(source: string | Uint8Array) {
  const path = typeof source === "string" ? source : join(mkdtempSync(join(tmpdir(), "stoker-peft-")), "made.gguf");
  if (typeof source !== "string") writeFileSync(path, source);
  const info = await readGgufFileInfo(path);
  const file = readFileSync(path);
  if (typeof source !== "string") rmSync(dirname(path), { recursive: true });
  return new Map(
    (info.fullTensorInfo ?? []).map(({ name, dimensions, ggmlType, fileOffset }) => {
      const count = dimensions.reduce<number>((product, n) => product * Number(n), 1);
      const at = Number(fileOffset);
      const shape = [...dimensions.map(Number), Number(ggmlType)];
      return [name, { shape, bytes: file.subarray(at, at + count * 4) }] as const;
    }),
  );
}

describe("an adapter that is converted in a thread of its own", () => {
  it("equals the converter's result, and its faults are reported as the converter reports them", async () => {
    const folder = mkdtempSync(join(tmpdir(), "stoker-peft-"));
    try {
      const bytes = safetensors(pair(q, [1], [0, 1, 2, 3, 4, 5, 6, 7], "BF16"));
      writeFileSync(join(folder, "adapter_config.json"), config({ lora_alpha: 3 }));
      writeFileSync(join(folder, "adapter_model.safetensors"), bytes);
      const converted = await adapterFile(folder, llama);
      expect(readFileSync(converted.path).equals(convertPeft(config({ lora_alpha: 3 }), bytes, llama))).toBe(true);
      await converted.remove();
      expect(existsSync(converted.path)).toBe(false);
      const refused = adapterFile(folder, { ...llama, architecture: "mamba" });
      await expect(refused).rejects.toThrow(AdapterRefusal);
      await expect(refused).rejects.toThrow(/architecture mamba/);
      rmSync(join(folder, "adapter_config.json"));
      mkdirSync(join(folder, "adapter_config.json"));
      await expect(adapterFile(folder, llama)).rejects.toThrow(/EISDIR/);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
