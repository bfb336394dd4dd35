// One LoRA adapter of one account in memory, for the HTTP edge.
import type { Adapter } from "../../control-plane/deployments/adapter.ts";
import type { Adapters } from "../../control-plane/deployments/adapters.ts";
import { AdapterNotFound } from "../../control-plane/deployments/errors.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";

export function adapter(change: Partial<Adapter> = {}): Adapter {
  return {
    id: "AdPter0123456789" as AdapterId,
    account: "u:1000000000001" as AccountId,
    name: "ada/ink",
    baseDeployId: "DpM4BkrjEspUwmTa" as DeploymentId,
    baseModel: "org/model",
    source: "huggingface",
    repo: "ada/ink-lora",
    revision: "main",
    file: "",
    commit: "",
    hasToken: true,
    isPrivate: true,
    description: "",
    status: "deployed",
    failReason: "",
    held: 1,
    base: { task: "text-generation", engine: "stoker", gpu: "H100-80GB", numGpus: 1, maxBatchSize: 8 },
    createdAtMs: 1_786_000_000_000,
    updatedAtMs: 1_786_000_100_000,
    ...change,
  };
}

export function fakeAdapters(account: AccountId, one: Adapter = adapter()): Adapters {
  const find = async (owner: { account: AccountId }, name: string) => {
    if (owner.account === account && (name === one.name || name === one.id)) return one;
    throw new AdapterNotFound(name);
  };
  return {
    create: async (_owner, { name, origin, isPrivate, description }) =>
      adapter({
        name,
        repo: origin.kind === "huggingface" ? origin.repo : origin.url,
        isPrivate,
        description,
        status: "initializing",
        held: 0,
      }),
    get: find,
    change: async (owner, name, change) => ({ ...(await find(owner, name)), ...change }),
    remove: async (owner, name) => ({ ...(await find(owner, name)), status: "deleted", held: 0 }),
    list: async (of, baseModel) =>
      of === account && (baseModel === undefined || baseModel === one.baseModel) ? [one] : [],
  };
}
