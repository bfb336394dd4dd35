// Deployments of one account in memory, for the HTTP edge.
import type { Caller } from "../../control-plane/accounts/caller.ts";
import type { Deployment } from "../../control-plane/deployments/deployment.ts";
import type { Deployments } from "../../control-plane/deployments/deployments.ts";
import { DeploymentNotFound } from "../../control-plane/deployments/errors.ts";
import type { UseStats } from "../../control-plane/deployments/store.ts";
import type { Oversight } from "../../control-plane/oversight/oversight.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";

export function deployment(change: Partial<Deployment> = {}): Deployment {
  return {
    id: "DpM4BkrjEspUwmTa" as DeploymentId,
    account: "u:1000000000001" as AccountId,
    kind: "model",
    modelName: "ada/my-llm",
    version: "d8b79b42",
    task: "text-generation",
    type: "llm",
    engine: "stoker",
    status: "deployed",
    failReason: "",
    gpu: "H100-80GB",
    numGpus: 2,
    maxBatchSize: 64,
    minInstances: 1,
    maxInstances: 2,
    target: 1,
    inactiveShutdown: null,
    scaling: {},
    startMs: 0,
    weights: { repo: "org/w", revision: "main" },
    hasWeightsToken: true,
    extraArgs: [],
    externalUrl: null,
    contextLength: 4096,
    memoryBytes: 0,
    pendingReasons: [],
    generation: 1,
    spec: 1,
    servingSpec: 1,
    updateError: "",
    replacements: 0,
    replacedAtMs: 0,
    awaitedAtMs: 0,
    usedAtMs: 0,
    revision: 1n,
    createdAtMs: Date.UTC(2026, 0, 2, 3, 4, 5),
    updatedAtMs: Date.UTC(2026, 0, 2, 3, 9, 5),
    running: 1,
    rollout: { booting: 0, upToDate: 1, outdated: 0 },
    progress: null,
    ...change,
  };
}

/** Twelve requests for 1.5 US cents. */
const useStats: UseStats = {
  requests: 12,
  errors: 1,
  inputTokens: 100,
  outputTokens: 50,
  totalMs: 2500,
  averageMs: 208.333,
  p95Ms: 400,
  averageFirstMs: 20,
  p95FirstMs: 30,
  averageTokenMs: 5,
  p95TokenMs: 9,
  chargeNano: 15_000_000n,
};

/** One deployment of any account, on one host, with one event of each. */
export function fakeOversight(one: Deployment): Oversight {
  const owner = { account: one.account, email: "ada@example.com", displayName: "ada", suspendReason: null };
  const placed = {
    id: "instance-1" as InstanceId,
    host: "host-1" as HostId,
    hostname: "gpu-1",
    phase: "ready",
  } as const;
  const instances = [{ ...placed, restarts: 0, trouble: "", gpuUuids: ["GPU-1"], createdAtMs: 1_786_000_000_000 }];
  const found = async (id: DeploymentId) => {
    if (id !== one.id) throw new DeploymentNotFound();
    return { deployment: one, owner, instances };
  };
  const event = { id: 7n, atMs: 1_786_000_000_000, account: one.account, deployment: one.id, gpu: null, reason: "" };
  const named = { accountEmail: owner.email, deploymentName: one.modelName, hostname: placed.hostname };
  const ready = { ...event, ...named, kind: "instance.ready", instance: placed.id, host: placed.host, state: "ready" };
  const page = { events: [ready], nextCursor: null };
  return {
    get: found,
    list: async () => ({ page: [await found(one.id)], nextCursor: null }),
    events: async () => page,
    eventsOf: async (account, id) => {
      if (account !== one.account) throw new DeploymentNotFound();
      await found(id);
      return page;
    },
    logs: async (id) => {
      await found(id);
      return [{ at: "1682343934.123456789", line: "loading" }];
    },
    stop: async (id) => void (await found(id)),
    restart: async (id) => void (await found(id)),
    remove: async (id) => void (await found(id)),
  };
}

/** One deployment; a test replaces what it wants to see refused. */
export function fakeDeployments(account: AccountId, one: Deployment): Deployments {
  const own = (caller: Pick<Caller, "account">, id: string) => {
    if (caller.account !== account || id !== one.id) throw new DeploymentNotFound();
    return Promise.resolve(one);
  };
  return {
    createLlm: (_caller, request) =>
      Promise.resolve(deployment({ modelName: request.modelName, status: "initializing", running: 0 })),
    get: own,
    list: (caller) => Promise.resolve(caller.account === account ? [one] : []),
    versions: async (caller, id) => {
      await own(caller, id);
      const same = { extraArgs: [], standardArgs: {}, contextLength: 0, createdAtMs: Date.UTC(2026, 0, 2) };
      return [
        { ...same, version: 1, isDesired: true, isServing: true },
        { ...same, version: 0, isDesired: false, isServing: false },
      ];
    },
    rollBack: async (caller, id) => {
      await own(caller, id);
      return 0;
    },
    update: async (caller, id) => void (await own(caller, id)),
    remove: async (caller, id) => void (await own(caller, id)),
    stop: async (caller, id) => void (await own(caller, id)),
    start: async (caller, id) => void (await own(caller, id)),
    restart: async (caller, id) => void (await own(caller, id)),
    createHf: (_caller, request) =>
      Promise.resolve(deployment({ modelName: request.modelName, type: "legacy", task: "embeddings" })),
    createBy: (_caller, provider, request) =>
      Promise.resolve(deployment({ modelName: request.modelName, type: provider === "cnt" ? "legacy" : "llm" })),
    requestCounts: () => Promise.resolve([{ modelName: one.modelName, requests: 12 }]),
    use: async (caller, id) => ({ deployment: await own(caller, id), use: useStats }),
    series: async (caller, id, fromMs) => {
      await own(caller, id);
      const both = { p50: 20, p95: 30 };
      const step = { fromMs, requests: 2, errors: 1, outputTokens: 50, firstMs: both, totalMs: both, queueP95Ms: null };
      return { steps: [step], endReasons: [{ reason: "stop", requests: 1 }] };
    },
    instanceLogs: async (caller, id) => {
      await own(caller, id);
      return new Map([["instance-1" as InstanceId, [{ at: "1682343934.123456789", line: "loading" }]]]);
    },
    createExternal: (_caller, request) =>
      Promise.resolve(deployment({ modelName: request.name, engine: "external", numGpus: 0, gpu: "other" })),
    sharePrefixCache: async () => {},
    logs: async (caller, id) => {
      await own(caller, id);
      return [{ at: "1682343934.123456789", line: "loading" }];
    },
  };
}
