// Specifications and sightings of instances with every field filled, for tests that care about one of them.
import type { Observed } from "../../agent/reconcile/driver.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";

export function instanceSpec(over: Partial<InstanceSpec__Output> = {}): InstanceSpec__Output {
  return {
    instanceId: "instance-1",
    deployId: "deployment-1",
    generation: "1",
    engine: "stoker",
    servedModelName: "owner/model",
    task: "text-generation",
    weights: {
      repo: "owner/model",
      revision: "main",
      token: "",
      file: "",
      sha256: "",
      sizeBytes: "0",
      localPath: "",
      pypiPackage: "",
      pypiVersion: "",
      pypiPath: "",
      url: "",
      format: "",
    },
    gpuUuids: ["cpu-host-0"],
    maxBatchSize: 4,
    contextLength: 2048,
    memoryBytes: String(1024 ** 3),
    cpus: 1,
    extraArgs: [],
    image: "",
    externalUrl: "",
    externalApi: "",
    draining: false,
    chatTemplate: "",
    agentInstance: null,
    rental: null,
    gpuMemoryBytes: "0",
    gpuShare: 0,
    sharesPrefixCache: false,
    adapters: [],
    sleepAfterSeconds: 0,
    awaitedAtMs: "0",
    owner: "",
    takesServerBatch: false,
    ...over,
  };
}

export interface Sighting {
  readonly id?: string;
  readonly generation?: number;
  readonly identity?: string;
}

export function sighting(state: Observed["state"], over: Sighting = {}): Observed {
  const named = {
    instanceId: (over.id ?? "instance-1") as InstanceId,
    deployId: "deployment-1" as DeploymentId,
    generation: over.generation ?? 1,
    identity: over.identity ?? "100@boot:1",
  };
  switch (state) {
    case "starting":
      return { ...named, state };
    case "running":
      return { ...named, state, origin: "http://127.0.0.1:4000", startedAtMs: 0 };
    case "exited":
      return { ...named, state, exitCode: 1, signal: undefined, oomKilled: false, finishedAtMs: 0 };
  }
}
