import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readConfigShape, readGgufShape } from "../../../../control-plane/deployments/hub-shape.ts";
import { estimateMemory, kvCacheBytes, neededMemory } from "../../../../control-plane/deployments/memory-estimate.ts";
import { nominalBytes } from "../../../../proto/gpu.ts";

const gib = 1024 ** 3;
const demo = join(import.meta.dirname, "../../../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
/** https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/blob/main/config.json */
const smolLm2 = {
  ...{ layers: 30, kvHeads: 3, keyLength: 64, valueLength: 64, contextLength: 8192 },
  // Of rank 1: to and from all of attention's four and the MLP's three matrices.
  loraWidth: 2 * (576 + 576) + 2 * (576 + 192) + 3 * (576 + 1536),
};

function headOf(path: string, bytes: number): Buffer {
  const head = Buffer.alloc(bytes);
  const file = openSync(path, "r");
  try {
    return head.subarray(0, readSync(file, head, 0, bytes, 0));
  } finally {
    closeSync(file);
  }
}

describe("the shape of a model", () => {
  it("is not searched for in as many elements as a file claims to have", () => {
    for (const type of [0, 9, 10, 13]) {
      const head = Buffer.alloc(64);
      head.write("GGUF", 0);
      head.writeBigUInt64LE(1n, 16);
      head.writeBigUInt64LE(1n, 24);
      head.write("k", 32);
      head.writeUInt32LE(9, 33);
      head.writeUInt32LE(type, 37);
      head.writeBigUInt64LE(2n ** 62n, 41);
      expect(readGgufShape(head, 1)).toBeUndefined();
    }
  });

  it("is read from the first bytes of the demo model's real GGUF file", ({ skip }) => {
    if (!existsSync(demo)) skip(`${demo} is not there: no real GGUF header was read`);
    const { size } = statSync(demo);
    expect(readGgufShape(headOf(demo, 64 * 1024), size)).toEqual({ ...smolLm2, weightsBytes: size });
    // Its own header without the numbers says nothing rather than something wrong.
    expect(readGgufShape(headOf(demo, 200), size)).toBeUndefined();
  });

  it("is read from config.json, including the text part of a vision model", () => {
    const config = {
      ...{ num_hidden_layers: 30, num_attention_heads: 9, num_key_value_heads: 3, hidden_size: 576 },
      ...{ max_position_embeddings: 8192, intermediate_size: 1536 },
    };
    expect(readConfigShape(config, 7)).toEqual({ ...smolLm2, weightsBytes: 7 });
    expect(readConfigShape({ vision_config: {}, text_config: config }, 7)).toEqual({ ...smolLm2, weightsBytes: 7 });
    expect(readConfigShape({ architectures: ["ViTModel"] }, 7)).toBeUndefined();
    expect(readConfigShape("not a config", 7)).toBeUndefined();
  });

  it("is not read from anything else, which never throws", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), (bytes, isGguf) => {
        const head = Buffer.concat([Buffer.from(isGguf ? "GGUF\u0003\0\0\0" : "", "latin1"), bytes]);
        expect(readGgufShape(head, 1)).toBeUndefined();
      }),
    );
  });
});

describe("the memory of an instance", () => {
  /** Llama 3.1 8B in half precision: 8.03 G parameters, 128 KiB of keys and values per token. */
  const llama = {
    ...{ weightsBytes: 16.06e9, layers: 32, kvHeads: 8, keyLength: 128, valueLength: 128, contextLength: 131_072 },
  };

  it("is the sum of its weights, KV cache for every sequence, adapters and engine overhead", () => {
    const use = { maxBatchSize: 16, contextLength: 8192, gpus: 1 };
    expect(kvCacheBytes(llama, use)).toBe(16 * gib);
    const bytes = estimateMemory(llama, use);
    expect(bytes).toBeGreaterThan(llama.weightsBytes + 16 * gib);
    expect(bytes).toBeLessThan(llama.weightsBytes * 1.1 + 17 * gib);
    expect(estimateMemory(llama, { ...use, loraBytes: gib }) - bytes).toBe(gib);
    expect(kvCacheBytes(llama, { ...use, bytesPerKvValue: 1 })).toBe(8 * gib);
    expect(kvCacheBytes(llama, { ...use, contextLength: 0, maxBatchSize: 1 })).toBe(16 * gib);
  });

  it("never shrinks with more of anything", () => {
    const size = fc.integer({ min: 1, max: 100_000 });
    fc.assert(
      fc.property(size, size, size, fc.integer({ min: 1, max: 8 }), (batch, context, more, gpus) => {
        const at = (maxBatchSize: number, contextLength: number, count: number) =>
          estimateMemory(llama, { maxBatchSize, contextLength, gpus: count });
        const least = at(batch, context, gpus);
        expect(at(batch + more, context, gpus)).toBeGreaterThan(least);
        expect(at(batch, context + more, gpus)).toBeGreaterThan(least);
        expect(at(batch, context, gpus + 1)).toBeGreaterThan(least);
      }),
    );
  });

  it("requires all of it if the GPUs could hold that, else one sequence: engines fit the rest into the remaining memory", () => {
    expect([nominalBytes("H100-80GB"), nominalBytes("other")]).toEqual([80e9, 0]);
    const use = { maxBatchSize: 96, contextLength: 8192, gpus: 1 };
    const one = estimateMemory(llama, { ...use, maxBatchSize: 1 });
    expect(neededMemory(llama, use, 80e9)).toBe(one);
    expect(neededMemory(llama, use, 270e9)).toBe(estimateMemory(llama, use));
  });
});
