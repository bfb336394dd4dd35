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

/** `folders`: models already on the hosts, at the same paths as here. */
export function createDemoModels(folders: readonly string[]): (repo: string) => KnownModel | undefined {
  return (repo) => {
    const demo = demoModelNamed(repo);
    return (
      demo && {
        weights: weightsOf(demo, folders),
        memoryBytes: (use) => demoMemoryBytes(demo, use),
        task: demo.task,
        contextLength: demo.servedContextLength,
      }
    );
  };
}

function weightsOf({ repo, weights }: DemoModel, folders: readonly string[]): WeightsSource {
  const source = { repo, revision: "main" };
  if (weights.kind === "package") {
    const { kind: _, ...file } = weights;
    return { ...source, ...file };
  }
  const localPath = folders.map((folder) => join(folder, weights.name)).find((path) => existsSync(path));
  return { ...source, format: weights.format, ...(localPath === undefined ? {} : { localPath }) };
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
