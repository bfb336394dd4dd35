// Headers of weight files come from strangers: whatever they claim, reading one neither crashes, hangs nor allocates by a claim.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { whyAdapterRefused, whyImageAdapterRefused } from "../../agent/adapters/check-adapter.ts";
import { readConfigShape, readGgufShape } from "../../control-plane/deployments/hub-shape.ts";
import { estimateMemory } from "../../control-plane/deployments/memory-estimate.ts";
import { LoadFailure } from "../../runtime/llama/load-failure.ts";
import { AdapterRefusal } from "../../runtime/llama/lora/adapter-refusal.ts";
import { readSafetensors } from "../../runtime/llama/lora/safetensors.ts";
import { checkGraph } from "../../runtime/onnx/check-graph.ts";
import { readLayerWeights } from "../../runtime/onnx/graph-weights.ts";
import { ggufFile } from "../fakes/gguf-file.ts";
import { longer } from "../fakes/nightly.ts";
import { bytesField, onnxFile, text } from "../fakes/onnx-file.ts";

/** Processor time of this process: a busy machine is no hang, and a loop without an end uses it up. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Inputs of all formats together: at least 100,000 at night. */
const rounds = longer(300, 21_000);
const maxMs = 1_000;
const maxBytes = 256 * 1024 ** 2;
const use = { maxBatchSize: 8, contextLength: 0, gpus: 1 };

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "stoker-headers-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Deterministic: a failure names the seed of its input. */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const edges64 = [
  0n,
  1n,
  0x7fn,
  0xffffn,
  0x7fff_ffffn,
  0xffff_ffffn,
  2n ** 40n,
  2n ** 53n,
  2n ** 63n - 1n,
  2n ** 63n,
  2n ** 64n - 1n,
];

/** Flips, claims of lengths and counts, repetitions, cuts. */
function mutate(valid: Buffer, seed: number): Buffer {
  const next = random(seed);
  const below = (n: number) => Math.floor(next() * n);
  let bytes = Buffer.from(valid);
  for (let n = 1 + below(4); n > 0; n--) {
    const at = below(bytes.length);
    switch (below(7)) {
      case 0:
        bytes[at] = below(256);
        break;
      case 1:
        bytes[at] = (bytes[at] ?? 0) ^ (1 << below(8));
        break;
      case 2:
        if (at + 8 <= bytes.length) bytes.writeBigUInt64LE(edges64[below(edges64.length)] ?? 0n, at);
        break;
      case 3:
        if (at + 4 <= bytes.length)
          bytes.writeUInt32LE([0, 8, 9, 13, 0xffff, 0x7fff_ffff, 0xffff_ffff][below(7)] ?? 0, at);
        break;
      case 4:
        bytes = bytes.subarray(0, at);
        break;
      case 5:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(below(at + 1), at), bytes.subarray(at)]);
        break;
      default:
        bytes.fill([0x00, 0xff, 0x80, 0x5b, 0x7b][below(5)] ?? 0, at, Math.min(bytes.length, at + 1 + below(32)));
    }
    if (bytes.length === 0) return bytes;
  }
  return bytes;
}

async function each(valid: Buffer, read: (bytes: Buffer) => unknown): Promise<void> {
  let slowestMs = 0;
  const before = process.memoryUsage().rss;
  for (let seed = 0; seed < rounds; seed++) {
    const bytes = mutate(valid, seed);
    const beganMs = cpuMs();
    try {
      await read(bytes);
    } catch (error) {
      if (isRefusal(error)) continue;
      throw new Error(`seed ${seed}: ${String(error)}`, { cause: error });
    } finally {
      slowestMs = Math.max(slowestMs, cpuMs() - beganMs);
    }
  }
  expect(slowestMs).toBeLessThan(maxMs);
  expect(process.memoryUsage().rss - before).toBeLessThan(maxBytes);
}

/** Refusals that callers handle. */
const isRefusal = (error: unknown) =>
  error instanceof AdapterRefusal || error instanceof LoadFailure || error instanceof RangeError;

const file = (bytes: Buffer): string => {
  const path = join(folder, "input");
  writeFileSync(path, bytes);
  return path;
};

function checkGguf(head: Buffer): void {
  const shape = readGgufShape(head, 1_000);
  if (shape) expect(Number.isNaN(estimateMemory(shape, use))).toBe(false);
}

function safetensors(header: unknown, dataBytes: number, claimed?: bigint): Buffer {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(claimed ?? BigInt(json.length));
  return Buffer.concat([length, json, Buffer.alloc(dataBytes)]);
}

const lora = {
  "lora_unet_a.lora_down.weight": { dtype: "F32", shape: [2, 4], data_offsets: [0, 32] },
  "lora_unet_a.lora_up.weight": { dtype: "F32", shape: [4, 2], data_offsets: [32, 64] },
};
const gguf = ggufFile(
  {
    "general.architecture": { string: "llama" },
    "llama.block_count": { uint32: 2 },
    "llama.attention.head_count": { uint32: 4 },
    "llama.embedding_length": { uint32: 64 },
    "llama.context_length": { uint32: 128 },
    "llama.attention.head_count_kv": { int32s: [1, 2] },
    "tokenizer.ggml.tokens": { strings: ["a", "b"] },
  },
  [],
);
const onnx = onnxFile({
  inputs: [{ name: "x", type: "float32", shape: [1, 2] }],
  nodes: [{ op: "MatMul", inputs: ["x", "w"], outputs: ["y"], attributes: { axis: 1 } }],
  weights: [{ name: "w", dims: [2, 2], data: new Float32Array([1, 2, 3, 4]) }],
  outputs: [{ name: "y", type: "float32", shape: [1, 2] }],
} as never);

describe("mutated headers", () => {
  it("are read or refused in GGUF", () => each(gguf, checkGguf), 120_000);
  it(
    "are read or refused in safetensors by a model server",
    () => each(safetensors(lora, 64), readSafetensors),
    120_000,
  );
  it("are checked in safetensors by an agent without an exception", async () => {
    await each(safetensors(lora, 64), async (bytes) => {
      await whyImageAdapterRefused(file(bytes), undefined, 128).catch((error) => {
        throw new Error("the agent did not refuse in words", { cause: error });
      });
    });
  }, 120_000);
  it("are read or refused in ONNX", async () => {
    mkdirSync(join(folder, "model"), { recursive: true });
    await each(onnx, (bytes) => checkGraph(file(bytes), folder));
    await each(onnx, (bytes) => readLayerWeights(file(bytes)));
  }, 240_000);
});

describe("hostile headers", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);

  it("end at the end of the file in GGUF that claims more than it holds", () => {
    const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
    const u64 = (value: bigint) => Buffer.from(BigUint64Array.of(value).buffer);
    const head = (keys: bigint, ...parts: Buffer[]) =>
      Buffer.concat([Buffer.from("GGUF"), u32(3), u64(2n ** 63n), u64(keys), ...parts]);
    const key = Buffer.concat([u64(1n), Buffer.from("k")]);
    for (const claim of edges64) {
      checkGguf(head(claim));
      checkGguf(head(claim, u64(claim)));
      for (const type of [0, 4, 5, 8, 9, 10, 13, 0xffff_ffff]) {
        checkGguf(head(claim, key, u32(type), u64(claim)));
        checkGguf(head(claim, key, u32(9), u32(type), u64(claim), Buffer.alloc(65_536)));
      }
    }
    // Arrays of arrays are not read.
    checkGguf(
      head(2n ** 63n, key, ...Array.from({ length: 4_000 }, () => Buffer.concat([u32(9), u32(9), u64(2n ** 63n)]))),
    );
    for (const value of [0, -1, 1e308, Number.MAX_VALUE, 2 ** 63])
      expect(
        Number.isNaN(
          estimateMemory(
            readConfigShape(
              {
                num_hidden_layers: value,
                num_attention_heads: value,
                hidden_size: value,
                max_position_embeddings: value,
              },
              1,
            ) ?? { weightsBytes: 1, layers: 0, kvHeads: 0, keyLength: 0, valueLength: 0, contextLength: 0 },
            use,
          ),
        ),
      ).toBe(false);
  });

  it("are refused in safetensors in a sentence, whatever length or depth they claim", async () => {
    const inputs: readonly Buffer[] = [
      ...edges64.map((claim) => safetensors(lora, 64, claim)),
      safetensors({ x: { dtype: "F32", shape: [2 ** 53, 2 ** 53], data_offsets: [0, 4] } }, 4),
      safetensors({ x: { dtype: "F32", shape: [-1, -1], data_offsets: [-4, 0] } }, 4),
      safetensors({ x: { dtype: "F32", shape: [1e308, 1e308], data_offsets: [0, 1e308] } }, 4),
      safetensors('{"x":1,"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4),
      safetensors('{"__proto__":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4),
      safetensors(nested(500_000), 0),
      safetensors(`{"x.lora_down.weight":{"dtype":"F32","shape":[${nested(400_000)}],"data_offsets":[0,4]}}`, 4),
      safetensors(`{"x.lora_down.weight":{"dtype":${nested(400_000)},"shape":[1],"data_offsets":[0,4]}}`, 4),
      safetensors(`{"x":{"dtype":"F32","shape":${nested(400_000)},"data_offsets":[0,4]}}`, 4),
      safetensors(`{"${"x".repeat(1_000_000)}":1}`, 0),
    ];
    for (const [i, bytes] of inputs.entries()) {
      const beganMs = cpuMs();
      const before = process.memoryUsage().rss;
      expect([i, typeof (await whyImageAdapterRefused(file(bytes), undefined, 128))]).not.toEqual([i, "function"]);
      try {
        readSafetensors(bytes);
      } catch (error) {
        expect([i, error instanceof AdapterRefusal, String(error)]).toEqual([i, true, String(error)]);
      }
      expect(cpuMs() - beganMs).toBeLessThan(maxMs);
      expect(process.memoryUsage().rss - before).toBeLessThan(maxBytes);
    }
  });

  it("are refused unread in safetensors of 100 MB", async () => {
    for (const json of [nested(50_000_000), `{"x":${"[],".repeat(100).slice(0, -1)}${" ".repeat(99_000_000)}}`]) {
      const bytes = safetensors(json, 0);
      const path = file(bytes);
      const before = process.memoryUsage().rss;
      const beganMs = cpuMs();
      expect(() => readSafetensors(bytes)).toThrow(AdapterRefusal);
      expect(await whyImageAdapterRefused(path, undefined, 128)).toMatch(/header has \d+ bytes/);
      expect(cpuMs() - beganMs).toBeLessThan(maxMs);
      expect(process.memoryUsage().rss - before).toBeLessThan(maxBytes);
    }
  });

  it("are refused in adapters' descriptions in a sentence", () => {
    for (const value of [nested(400_000), `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`, "1e999", '"\\u0000"'])
      for (const key of ["peft_type", "r", "base_model_name_or_path", "rank_pattern"]) {
        const config = `{"peft_type":"LORA","r":8,"${key}":${value}}`;
        expect(() => whyAdapterRefused(config, "org/model", 128)).not.toThrow();
      }
  });

  it("are refused in ONNX where lengths, depth or the number of fields are out of bounds", async () => {
    const deep = (depth: number): Buffer => {
      // graph.node.attribute.graph, and so on.
      let graph: Buffer = Buffer.alloc(0);
      for (let n = 0; n < depth; n++) graph = bytesField(1, bytesField(5, bytesField(6, graph)));
      return bytesField(7, graph);
    };
    const endless = Buffer.alloc(4_096, 0x80);
    const claims = [
      [0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
      [0x3a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ];
    const manyDomains = Buffer.concat(Array.from({ length: 20_000 }, (_, n) => bytesField(8, text(1, `domain${n}`))));
    const inputs = [
      deep(17),
      deep(400),
      endless,
      ...claims.map((bytes) => Buffer.from(bytes)),
      manyDomains,
      bytesField(8, text(1, "x".repeat(70_000))),
    ];
    for (const [i, bytes] of inputs.entries()) {
      const beganMs = cpuMs();
      await expect(checkGraph(file(bytes), folder), `input ${i}`).rejects.toBeInstanceOf(LoadFailure);
      expect([i, cpuMs() - beganMs < maxMs]).toEqual([i, true]);
    }
  });
});
