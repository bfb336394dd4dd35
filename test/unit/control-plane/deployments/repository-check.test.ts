// Dry runs of new deployments: what is known of their repository.
import { expect, it } from "vitest";
import type { RepoLook } from "../../../../control-plane/catalog/hub-look.ts";
import type { DeployRequest } from "../../../../control-plane/deployments/create.ts";
import { createPlacementPreview } from "../../../../control-plane/deployments/placement-preview.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { gib, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";

const owner = { account: "u:ada" as AccountId, displayName: "ada", suspendReason: null };
const request: DeployRequest = {
  modelName: "ada/llm",
  gpu: "H100-80GB",
  numGpus: 1,
  maxBatchSize: 4,
  baseModel: undefined,
  hf: { repo: "org/w" },
  minInstances: 1,
  maxInstances: 1,
  extraArgs: [],
};
const embeddings = {
  modelName: "ada/vectors",
  repo: "org/w",
  task: "embeddings",
  revision: undefined,
  token: undefined,
  gpu: "H100-80GB",
  numGpus: 1,
  maxBatchSize: 4,
  minInstances: 1,
  maxInstances: 1,
};
const host = hostView("h1", { inventory: inventory({ gpus: [gpu(0, { type: "H100-80GB", memoryBytes: 80 * gib })] }) });

function previewWith(look: RepoLook, leastBytes = 0) {
  let lookCount = 0;
  const preview = createPlacementPreview({
    funds: async () => null,
    firstMinutes: async () => 0n,
    gpuDefaults: { perType: 8 },
    store: { refusalOf: async () => undefined, get: async () => undefined, instances: async () => [] },
    sealToken: async (_, token) => Buffer.from(token),
    demoModel: () => undefined,
    publicModel: async () => undefined,
    leastBytes: () => leastBytes,
    resolve: () => undefined,
    shapeOf: async () => undefined,
    lookAtRepo: async () => {
      lookCount += 1;
      return look;
    },
    hosts: async () => [host],
    hourRates: async () => new Map(),
    reserve: async () => ({ minimums: new Map() }),
  });
  return { preview, lookCount: () => lookCount };
}

const found = (format: "gguf" | "onnx"): RepoLook => ({
  kind: "found",
  formats: new Set([format]),
  task: undefined,
  baseModel: undefined,
  files: [],
});

it("is unknown while the hub is unreachable, although the GPUs are free", async () => {
  const { preview } = previewWith({ kind: "unreachable" });
  expect(await preview.dryRunNew(owner, request)).toMatchObject({ host: "h1", repository: "unknown" });
  expect(await preview.dryRunHf(owner, embeddings)).toMatchObject({ host: "h1", repository: "unknown" });
});

it("is found once for dry runs on several GPU types", async () => {
  const { preview, lookCount } = previewWith(found("gguf"));
  expect(await preview.dryRunNew(owner, request)).toMatchObject({ host: "h1", repository: "found" });
  expect(await preview.dryRunNew(owner, { ...request, gpu: "other" })).toMatchObject({ repository: "found" });
  expect(lookCount()).toBe(1);
  const { preview: other } = previewWith(found("onnx"));
  expect(await other.dryRunHf(owner, embeddings)).toMatchObject({ engine: "stoker", repository: "found" });
});

it("refuses a repository that the hub does not have, naming the field", async () => {
  const { preview } = previewWith({ kind: "missing" });
  const refused = { code: "model_not_found" };
  await expect(preview.dryRunNew(owner, request)).rejects.toMatchObject({ ...refused, param: "hf.repo" });
  await expect(preview.dryRunNew(owner, { ...request, hf: undefined })).rejects.toMatchObject({
    ...refused,
    param: "model_name",
  });
  await expect(preview.dryRunHf(owner, embeddings)).rejects.toMatchObject({ ...refused, param: "repo" });
});

it("does not fit when the catalogue's weights exceed every host, without asking the hub", async () => {
  const { preview, lookCount } = previewWith({ kind: "unreachable" }, 656 * gib);
  const named = { ...request, engine: "stoker" as const };
  expect(await preview.dryRunNew(owner, named)).toMatchObject({
    host: undefined,
    memoryBytes: 656 * gib,
    repository: "not_checked",
  });
  expect(lookCount()).toBe(0);
  const { preview: small } = previewWith({ kind: "unreachable" }, 5 * gib);
  expect(await small.dryRunNew(owner, named)).toMatchObject({ host: "h1", repository: "unknown" });
});

it("is not checked for weights outside the hub", async () => {
  const { preview, lookCount } = previewWith({ kind: "missing" });
  const hf = { repo: "s3://bucket/weights" };
  expect(await preview.dryRunNew(owner, { ...request, hf })).toMatchObject({ repository: "not_checked" });
  expect(lookCount()).toBe(0);
});
