// Models with known weights and memory needs.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { AccountId } from "../../proto/ids.ts";
import { type DemoModel, demoMemoryBytes } from "../catalog/demo-model.ts";
import { demoModelNamed } from "../catalog/demo-models.ts";
import type { ServedModel } from "../catalog/served-model.ts";
import type { KnownModel } from "./create.ts";
import type { WeightsSource } from "./deployment.ts";
import type { DeploymentStore } from "./store.ts";

/** `folder`: models already on the hosts, at the same path as here; undefined: none. */
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

/** Looks up a public model's weights and needs from the deployment that serves it. */
export function createPublicModels(deps: {
  readonly store: Pick<DeploymentStore, "get">;
  readonly resolve: (name: string, account: AccountId) => Pick<ServedModel, "deployId" | "owner"> | undefined;
}) {
  return async (name: string): Promise<KnownModel | undefined> => {
    const offered = deps.resolve(name, "" as AccountId);
    const found = offered && (await deps.store.get(offered.deployId, offered.owner));
    if (!found) return undefined;
    const { weights, task, memoryBytes: otherwiseBytes, contextLength } = found;
    // A copy claims memory for its own GPUs and its own number of concurrent requests.
    return { weights, task, memoryBytes: () => 0, otherwiseBytes, contextLength };
  };
}
