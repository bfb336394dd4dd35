import { expect, it } from "vitest";
import { type RepoLook, readLook } from "../../../../control-plane/catalog/hub-look.ts";
import { createDeployment } from "../../../../control-plane/deployments/create.ts";
import { createBy, createHf, type HfDeps } from "../../../../control-plane/deployments/create-by.ts";
import type { NewDeployment } from "../../../../control-plane/deployments/store.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { deployment } from "../../../fakes/ports.ts";

const ada = { account: "u:1" as AccountId, displayName: "ada", suspendReason: null };

function deps(look: RepoLook, asked: string[] = []) {
  const made: NewDeployment[] = [];
  const all: HfDeps = {
    store: {
      insert: async (next) => {
        made.push(next);
        return deployment({ ...next, status: "initializing" });
      },
    },
    gpuDefaults: { perType: 8 },
    funds: async () => null,
    firstMinutes: async () => 0n,
    sealToken: async (_, token) => Buffer.from(token),
    demoModel: () => undefined,
    publicModel: async (name) =>
      name === "org/model"
        ? { weights: { repo: "org/w", revision: "r1" }, memoryBytes: () => 5, contextLength: 9 }
        : undefined,
    lookAtRepo: async (repo, revision) => {
      asked.push(`${repo}@${revision}`);
      return look;
    },
    hosts: async () => [],
  };
  return { all, made };
}

const request = (over: object = {}) => ({
  modelName: "org/repo",
  task: undefined,
  revision: undefined,
  token: undefined,
  gpu: undefined,
  numGpus: 1,
  maxBatchSize: 8,
  minInstances: 1,
  maxInstances: 1,
  ...over,
});
const provided = { version: undefined, gpu: undefined, numGpus: 1, maxBatchSize: 8 };
const repo = (task: string | undefined, ...files: string[]) =>
  readLook({ ...(task ? { pipeline_tag: task } : {}), siblings: files.map((rfilename) => ({ rfilename })) });

it.each([
  ["feature-extraction", "embeddings", "legacy"],
  ["text-ranking", "reranker", "legacy"],
  ["image-classification", "image-classification", "legacy"],
  ["text-to-speech", "text-to-speech", "tts"],
])("the hub's %s is served as %s from ONNX weights", async (tag, task, type) => {
  const { all, made } = deps(repo(tag, "onnx/model.onnx", "model.safetensors"));
  await createHf(all, ada, request());
  expect(made[0]).toMatchObject({ task, type, engine: "stoker", weights: { repo: "org/repo", format: "onnx" } });
});

it("explicit settings override those of the hub, and an unavailable hub prevents no explicit setting", async () => {
  const { all, made } = deps({ kind: "unreachable" });
  await createHf(all, ada, request({ task: "fill-mask" }));
  expect(made[0]).toMatchObject({ task: "fill-mask", engine: "stoker", weights: { format: "onnx" } });
});

it.each([
  ["a repository without ONNX weights", repo("image-classification", "model.safetensors"), {}, /requires ONNX weights/],
  [
    "a task that nothing serves",
    repo("text-to-video", "model.onnx"),
    {},
    /text-to-video is not supported\. Supported:/,
  ],
  ["a repository that says no task", repo(undefined, "model.onnx"), {}, /set it in `task`/],
  ["a machine of one's own", repo("x"), { task: "rent-container" }, /POST \/v1\/containers/],
  ["an address instead of a repository", repo("x"), { modelName: "../../etc" }, /owner\/name/],
  ["a revision that climbs", repo("x"), { revision: "../main" }, /branch, tag or commit/],
] as const)("%s is refused at once, with what would work", async (_, look, over, why) => {
  const { all, made } = deps(look);
  await expect(createHf(all, ada, request(over))).rejects.toThrow(why);
  expect(made).toEqual([]);
});

it("throws ModelUnknown for a repository or a revision that the hub does not have", async () => {
  const { all, made } = deps({ kind: "missing" });
  await expect(createHf(all, ada, request({ task: "fill-mask" }))).rejects.toMatchObject({ code: "model_not_found" });
  const by = { ...provided, modelName: "org/repo", version: "no-such" };
  await expect(createBy(all, ada, "huggingface", by)).rejects.toThrow(/no repository org\/repo at revision no-such/);
  expect(made).toEqual([]);
});

it("throws ModelUnknown for a version that the offered model does not have", async () => {
  const { all, made } = deps({ kind: "unreachable" });
  const by = { ...provided, modelName: "org/model" };
  await expect(createBy(all, ada, "stoker", { ...by, version: "no-such" })).rejects.toMatchObject({
    code: "model_not_found",
  });
  expect(made).toEqual([]);
  await createBy(all, ada, "stoker", { ...by, version: "r1" });
  await createBy(all, ada, "stoker", { ...by, version: made[0]?.version });
  expect(made).toHaveLength(2);
});

it("a language model of the hub runs on the engine that fits its weights and the GPU", async () => {
  const asked: string[] = [];
  const { all, made } = deps(repo("text-generation", "model.safetensors"), asked);
  await createHf(all, ada, request({ gpu: "H100-80GB", revision: "v2" }));
  expect(made[0]).toMatchObject({ type: "llm", engine: "vllm", weights: { format: "safetensors", revision: "v2" } });
  expect(new Set(asked)).toEqual(new Set(["org/repo@v2"]));
});

it("an image keeps its reference, under the caller's or its own owner's name", async () => {
  const { all, made } = deps({ kind: "unreachable" });
  const digest = `sha256:${"b".repeat(64)}`;
  await createBy(all, ada, "cnt", { ...provided, modelName: "registry.example:5000/team/asr", version: digest });
  await createBy(all, ada, "cnt", { ...provided, modelName: "asr", version: "v1" });
  expect(made.map(({ image, modelName, engine }) => [image, modelName, engine])).toEqual([
    [`registry.example:5000/team/asr@${digest}`, "team/asr", "custom"],
    ["asr:v1", "ada/asr", "custom"],
  ]);
  await expect(
    createBy(all, ada, "cnt", { ...provided, modelName: "asr", version: "v1 --privileged" }),
  ).rejects.toThrow(/digest/);
});

it("a model of this installation is deployed as the caller's own copy", async () => {
  const { all, made } = deps({ kind: "unreachable" });
  await createBy(all, ada, "stoker", { ...provided, modelName: "org/model" });
  expect(made[0]).toMatchObject({ modelName: "ada/model", weights: { repo: "org/w" }, memoryBytes: 5 });
  await expect(createBy(all, ada, "stoker", { ...provided, modelName: "org/nothing" })).rejects.toThrow(/not found/);
});

const whisper = {
  weights: { repo: "onnx/whisper", revision: "main", format: "onnx" as const },
  memoryBytes: () => 7,
  task: "automatic-speech-recognition",
  contextLength: 0,
};
const knowsWhisper = (repo: string) => (["openai/whisper", "onnx/whisper"].includes(repo) ? whisper : undefined);

it("a model whose files are known is served from them by its name, and its record says so", async () => {
  const { all, made } = deps(repo("automatic-speech-recognition", "onnx/model.onnx"));
  await createHf({ ...all, demoModel: knowsWhisper }, ada, request({ modelName: "openai/whisper" }));
  await createHf({ ...all, demoModel: knowsWhisper }, ada, request({ modelName: "openai/whisper", revision: "v2" }));
  expect(made.map(({ weights }) => `${weights.repo}@${weights.revision}`)).toEqual([
    "onnx/whisper@main",
    "openai/whisper@v2",
  ]);
});

it.each([
  ["its name alone", undefined, "onnx/whisper@main"],
  ["the repository of the known files", { repo: "onnx/whisper" }, "onnx/whisper@main"],
  ["a repository in full", { repo: "openai/whisper" }, "openai/whisper@main"],
  ["another revision", { repo: "onnx/whisper", revision: "v2" }, "onnx/whisper@v2"],
])("%s of a known model is taken as it was asked for", async (_, hf, used) => {
  const { all, made } = deps({ kind: "unreachable" });
  const { task: _task, ...known } = request({ modelName: "openai/whisper" });
  const more = { gpu: "other" as const, extraArgs: [], hf, baseModel: undefined };
  await createDeployment({ ...all, demoModel: knowsWhisper }, ada, { ...known, ...more });
  expect(made.map(({ weights }) => `${weights.repo}@${weights.revision}`)).toEqual([used]);
});
