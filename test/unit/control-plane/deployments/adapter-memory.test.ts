import { describe, expect, it } from "vitest";
import { engineTraits } from "../../../../agent/engines/engine-traits.ts";
import { type DeployRequest, wouldCreate } from "../../../../control-plane/deployments/create.ts";
import {
  estimateMemory,
  graphShape,
  kvCacheBytes,
  loraMemory,
  loraWidthOf,
  type ModelShape,
  neededMemory,
} from "../../../../control-plane/deployments/memory-estimate.ts";
import type { AccountId } from "../../../../proto/ids.ts";

const gib = 1024 ** 3;
/** Llama 3.1 8B: a rank-1 adapter of all its matrices has 2.6 million values. */
const loraWidth = loraWidthOf({ width: 4096, queryWidth: 4096, keyWidth: 1024, valueWidth: 1024, feedForward: 14_336 });
const llama: ModelShape = {
  ...{ weightsBytes: 16.06e9, layers: 32, kvHeads: 8, keyLength: 128, valueLength: 128, contextLength: 131_072 },
  loraWidth,
};
const picture: ModelShape = { ...graphShape, weightsBytes: 4 * gib, adaptedBytes: 3 * gib };
const text = { task: "text-generation", contextLength: 8192, extraArgs: [] };

describe("the memory of LoRA adapters", () => {
  it("counts every matrix that adapters may change", () => {
    // peft's own count of trainable parameters for Llama 3.1 8B at rank 16, all linear layers: 41,943,040.
    expect(16 * 32 * loraWidth).toBe(41_943_040);
  });

  it("is reserved by vLLM at start, for eight adapters of the highest configured rank", () => {
    const bytes = 8 * engineTraits.vllm.maxLoraRank * 32 * loraWidth * 2;
    expect(loraMemory(llama, { ...text, engine: "vllm" })).toEqual({ loraBytes: bytes, loraBytesAtStart: bytes });
  });

  it("is allocated by our own runtime per adapter, each with its own KV cache", () => {
    const own = kvCacheBytes(llama, { maxBatchSize: 1, contextLength: 8192, gpus: 1 });
    const found = loraMemory(llama, { ...text, engine: "stoker" });
    expect(found).toEqual({ loraBytes: 4 * (64 * 32 * loraWidth * 2 + own), loraBytesAtStart: 0 });
  });

  it("is a copy of the changed weights for each adapter of a picture model", () => {
    const use = { ...text, engine: "stoker", task: "text-to-image" } as const;
    expect(loraMemory(picture, use)).toEqual({ loraBytes: 6 * gib, loraBytesAtStart: 0 });
  });

  it("is zero when the engine accepts no adapters", () => {
    const none = { loraBytes: 0, loraBytesAtStart: 0 };
    expect(loraMemory(llama, { ...text, engine: "sglang" })).toEqual(none);
    expect(loraMemory(llama, { ...text, engine: "stoker", task: "embeddings" })).toEqual(none);
    expect(loraMemory(llama, { ...text, engine: "vllm", extraArgs: ["--no-enable-lora"] })).toEqual(none);
    const { loraWidth: _, ...plain } = llama;
    expect(loraMemory(plain, { ...text, engine: "vllm" })).toEqual(none);
  });

  it("must be free if the GPUs can hold it; memory needed only later never prevents placing the model", () => {
    const use = { maxBatchSize: 4, contextLength: 8192, gpus: 1 };
    const bare = estimateMemory(llama, use);
    const later = { ...use, loraBytes: 10 * gib, loraBytesAtStart: 0 };
    expect(neededMemory(llama, later, 80e9)).toBe(bare + 10 * gib);
    expect(neededMemory(llama, later, 24e9)).toBe(bare);
    const atStart = { ...later, loraBytesAtStart: 10 * gib };
    expect(neededMemory(llama, atStart, 24e9)).toBe(estimateMemory(llama, { ...atStart, maxBatchSize: 1 }));
  });
});

describe("the expected memory of a deployment", () => {
  const owner = { account: "u:ada" as AccountId, displayName: "ada", suspendReason: null };
  const request: DeployRequest = {
    ...{ modelName: "ada/llm", gpu: "H100-80GB", numGpus: 1, maxBatchSize: 4, baseModel: undefined },
    ...{ hf: { repo: "org/w" }, minInstances: 1, maxInstances: 1, extraArgs: ["--max-model-len=8192"] },
    engine: "vllm",
  };
  const dry = (measured: number | undefined, over: Partial<DeployRequest> = {}, shape: ModelShape = llama) =>
    wouldCreate(
      {
        ...{ funds: async () => null, firstMinutes: async () => 0n, gpuDefaults: { perType: 8 } },
        store: { refusalOf: async () => undefined },
        sealToken: async (_, token) => Buffer.from(token),
        ...{ demoModel: () => undefined, publicModel: async () => undefined },
        lookAtRepo: async () => ({ kind: "unreachable" }),
        shapeOf: async () => shape,
        measuredMemory: async () => measured,
      },
      owner,
      { ...request, ...over },
    );

  it("includes adapters, as the dry run reports, until such a run was measured", async () => {
    const use = { maxBatchSize: 4, contextLength: 8192, gpus: 1 };
    const places = 8 * 64 * 32 * loraWidth * 2;
    const expected = await dry(undefined);
    expect(expected).toMatchObject({ engine: "vllm", isMemoryBound: false });
    expect(expected.memoryBytes).toBe(estimateMemory(llama, use) + places);
    expect(await dry(20e9)).toMatchObject({ memoryBytes: 21e9, isMemoryBound: true });
  });

  it("is the amount passed to vLLM, so that other models of the account fit beside it from the first start", async () => {
    const half = await dry(undefined, { standardArgs: {}, extraArgs: ["--gpu-memory-utilization=0.45"] });
    expect(half.isMemoryBound).toBe(true);
    expect(half.memoryBytes).toBe(Math.ceil(0.45 * 80e9 * 1.07 + gib));
    // Two of them fit into 80 GiB, and what is nearly all of a GPU is shared with nobody.
    expect(2 * half.memoryBytes).toBeLessThan(80 * gib);
    const most = await dry(undefined, { extraArgs: ["--gpu-memory-utilization=0.95"] });
    expect(most.isMemoryBound).toBe(false);
  });

  it("includes the copies of a picture model's adapters", async () => {
    const onnx = { engine: "stoker", format: "onnx" } as const;
    const { memoryBytes } = await dry(
      undefined,
      { task: "text-to-image", choice: onnx, engine: undefined, extraArgs: [] },
      picture,
    );
    const bare = estimateMemory(picture, { maxBatchSize: 4, contextLength: 0, gpus: 1 });
    expect(memoryBytes).toBe(bare + 6 * gib);
  });
});
