// What a changed deployment claims: never less memory for more concurrent requests, never more for fewer.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  changedMemory,
  expectedMemory,
  type MemorySources,
} from "../../../../control-plane/deployments/expected-memory.ts";
import type { ModelShape } from "../../../../control-plane/deployments/memory-estimate.ts";
import { deployment } from "../../../fakes/deployment-ports.ts";

const gib = 1024 ** 3;
const llama: ModelShape = {
  ...{ weightsBytes: 16.06e9, layers: 32, kvHeads: 8, keyLength: 128, valueLength: 128, contextLength: 131_072 },
};
const noToken = async () => undefined;
const one = deployment({ engine: "vllm", numGpus: 1, maxBatchSize: 8, contextLength: 8192, spec: 1 });
const files: MemorySources = { shapeOf: async () => llama };
const measured = (bytes: Readonly<Record<number, number>>): MemorySources => ({
  measuredMemory: async ({ maxBatchSize }) => bytes[maxBatchSize],
});

describe("the claim of a changed deployment", () => {
  it("never falls when concurrency is raised, and never rises when it is lowered", async () => {
    const batch = fc.integer({ min: 1, max: 256 });
    await fc.assert(
      fc.asyncProperty(batch, batch, fc.boolean(), async (from, to, knowsFiles) => {
        const sources = knowsFiles ? files : {};
        const { memoryBytes } = await expectedMemory(files, { ...one, maxBatchSize: from }, 0, noToken);
        const now = { ...one, maxBatchSize: from, memoryBytes };
        const claim = await changedMemory(sources, now, { ...now, maxBatchSize: to }, 0, noToken);
        if (to >= from) expect(claim.memoryBytes).toBeGreaterThanOrEqual(memoryBytes);
        if (to <= from) expect(claim.memoryBytes).toBeLessThanOrEqual(memoryBytes);
        // On a GPU that holds both, it is what a new deployment of that size would claim.
        const fresh = await expectedMemory(files, { ...one, maxBatchSize: to }, 0, noToken);
        if (knowsFiles && Math.max(from, to) <= 32) expect(claim).toEqual(fresh);
      }),
    );
  });

  it("is the measured memory of such a run, so that other models of the account fit beside it", async () => {
    const now = { ...one, memoryBytes: 20 * gib, isMemoryBound: true };
    const to = (maxBatchSize: number) =>
      changedMemory(measured({ 4: 10 * gib, 16: 30 * gib }), now, { ...now, maxBatchSize }, 0, noToken);
    expect(await to(16)).toEqual({ memoryBytes: Math.ceil(31.5 * gib), isMemoryBound: true });
    expect(await to(4)).toEqual({ memoryBytes: Math.ceil(10.5 * gib), isMemoryBound: true });
    // Never seen: fewer are bounded by what bounded more, and more by nothing.
    expect(await to(2)).toEqual({ memoryBytes: 20 * gib, isMemoryBound: true });
    expect(await to(32)).toEqual({ memoryBytes: 20 * gib, isMemoryBound: false });
  });

  it("follows changed arguments up and down, and stays if nothing new is known", async () => {
    const { memoryBytes } = await expectedMemory(files, one, 0, noToken);
    const now = { ...one, memoryBytes };
    const shorter = { ...now, extraArgs: ["--max-model-len=1024"], contextLength: 1024 };
    expect((await changedMemory(files, now, shorter, 0, noToken)).memoryBytes).toBeLessThan(memoryBytes);
    expect(await changedMemory({}, now, shorter, 0, noToken)).toEqual({ memoryBytes, isMemoryBound: false });
    const part = { ...now, extraArgs: ["--gpu-memory-utilization=0.5"] };
    expect(await changedMemory(files, now, part, 0, noToken)).toMatchObject({ isMemoryBound: true });
  });

  it("asks with the deployment's own token", async () => {
    const asked: (string | undefined)[] = [];
    const shapeOf = async (_repo: string, _revision: string, token: string | undefined) => {
      asked.push(token);
      return llama;
    };
    await changedMemory({ shapeOf }, one, { ...one, maxBatchSize: 16 }, 0, async () => "hf_own");
    expect(asked).toEqual(["hf_own"]);
  });
});

describe("the claim of llama.cpp's server", () => {
  it("counts the context of every request, because the server allocates all of them at start", async () => {
    const claim = (engine: "llamacpp" | "stoker", maxBatchSize: number) =>
      expectedMemory(files, { ...one, engine, gpu: "L4-24GB", maxBatchSize }, 0, noToken);
    const [few, many] = [await claim("llamacpp", 4), await claim("llamacpp", 64)];
    const perRequest = 8192 * 32 * 8 * 256 * 2;
    expect(many.memoryBytes - few.memoryBytes).toBe(60 * perRequest);
    expect(many.memoryBytes).toBeGreaterThan(24e9);
    const onHost = await expectedMemory(
      files,
      { ...one, engine: "llamacpp", gpu: "other", maxBatchSize: 4 },
      0,
      noToken,
    );
    expect(onHost).toEqual(few);
    // Our runtime fits what it can into the GPU.
    expect((await claim("stoker", 64)).memoryBytes).toBeLessThan(24e9);
  });
});
