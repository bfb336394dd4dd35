// A copy of a public model runs the same model, on GPUs its owner chooses.
import { describe, expect, it } from "vitest";
import { createBy, type HfDeps } from "../../../../control-plane/deployments/create-by.ts";
import type { Deployment } from "../../../../control-plane/deployments/deployment.ts";
import { createPublicModels } from "../../../../control-plane/deployments/known-models.ts";
import { estimateMemory, type ModelShape } from "../../../../control-plane/deployments/memory-estimate.ts";
import type { NewDeployment } from "../../../../control-plane/deployments/store.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { deployment, servedModel } from "../../../fakes/ports.ts";

const ada = { account: "u:ada" as AccountId, displayName: "ada", suspendReason: null };
const llama: ModelShape = {
  ...{ weightsBytes: 16.06e9, layers: 32, kvHeads: 8, keyLength: 128, valueLength: 128, contextLength: 131_072 },
};

async function copyOf(over: Partial<Deployment>, shape?: ModelShape): Promise<NewDeployment> {
  const original = deployment({ account: "u:operator" as AccountId, modelName: "org/model", ...over });
  let made: NewDeployment | undefined;
  const deps: HfDeps = {
    store: {
      async insert(next) {
        made = next;
        return deployment({ ...next, status: "initializing" });
      },
    },
    gpuDefaults: { perType: 8 },
    funds: async () => null,
    firstMinutes: async () => 0n,
    sealToken: async (_, token) => Buffer.from(token),
    demoModel: () => undefined,
    publicModel: createPublicModels({
      store: { get: async () => original },
      resolve: () => servedModel({ name: "org/model" }),
    }),
    lookAtRepo: async () => ({
      ...{ kind: "found", formats: new Set(["safetensors"]) },
      ...{ task: undefined, baseModel: undefined, files: [] },
    }),
    shapeOf: async () => shape,
    hosts: async () => [],
  };
  const size = { version: undefined, gpu: "H100-80GB", numGpus: 1, maxBatchSize: 2 } as const;
  await createBy(deps, ada, "stoker", { ...size, modelName: "org/model" });
  return made as NewDeployment;
}

describe("a copy of a public model", () => {
  it("runs the same settings", async () => {
    const weights = { repo: "org/minilm", revision: "main", format: "onnx" } as const;
    const made = await copyOf({ task: "embeddings", type: "legacy", weights });
    expect(made).toMatchObject({ task: "embeddings", type: "legacy", engine: "stoker", weights });
  });

  it("claims its own memory, not that of the original with more concurrency on a larger GPU", async () => {
    const original = { gpu: "B200-180GB", maxBatchSize: 64, contextLength: 8192, memoryBytes: 150e9 } as const;
    const { memoryBytes } = await copyOf(original, llama);
    expect(memoryBytes).toBe(estimateMemory(llama, { maxBatchSize: 2, contextLength: 8192, gpus: 1 }));
  });

  it("claims the memory of the original if no better figure is known", async () => {
    expect(await copyOf({ memoryBytes: 30e9 })).toMatchObject({ memoryBytes: 30e9 });
  });

  it("of an external server is refused immediately: there is nothing to copy", async () => {
    const outside = { engine: "external", externalUrl: "http://127.0.0.1:9", weights: { repo: "", revision: "" } };
    await expect(copyOf(outside as Partial<Deployment>)).rejects.toThrow(/base_model: .*no weights to copy/);
  });
});
