import { existsSync } from "node:fs";
import { join } from "node:path";
import { type DemoModel, demoMemoryBytes } from "../catalog/demo-model.ts";
import { demoModelNamed } from "../catalog/demo-models.ts";
import type { KnownModel } from "../deployments/create.ts";
import type { WeightsSource } from "../deployments/deployment.ts";

/** `folder`: of models that lie on the hosts already, under the same path as here; undefined: there are none. */
export function createDemoModels(folder: string | undefined): (repo: string) => KnownModel | undefined {
  return (repo) => {
    const demo = demoModelNamed(repo);
    return (
      demo && {
        weights: weightsOf(demo, folder),
        memoryBytes: (use) => demoMemoryBytes(demo, use),
        task: demo.task,
        contextLength: demo.servedContextLength,
      }
    );
  };
}

function weightsOf({ repo, weights }: DemoModel, folder: string | undefined): WeightsSource {
  const source = { repo, revision: "main" };
  if (weights.kind === "package") {
    const { kind: _, ...file } = weights;
    return { ...source, ...file };
  }
  const localPath = folder === undefined ? undefined : join(folder, weights.name);
  const isHere = localPath !== undefined && existsSync(localPath);
  return { ...source, format: weights.format, ...(isHere ? { localPath } : {}) };
}
