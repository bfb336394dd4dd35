import { demoModelByRepo } from "../catalog/demo-models.ts";
import type { KnownModel } from "../deployments/create.ts";

export function demoModel(repo: string): KnownModel | undefined {
  const demo = demoModelByRepo(repo);
  if (!demo) return undefined;
  return {
    weights: { repo: demo.repo, revision: "main", ...demo.weights },
    memoryBytes: demo.memoryBytes,
    contextLength: demo.servedContextLength,
  };
}
