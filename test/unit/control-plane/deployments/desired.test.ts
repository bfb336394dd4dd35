import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { desiredSet } from "../../../../control-plane/deployments/desired.ts";
import type { DesiredRow } from "../../../../control-plane/deployments/store.ts";
import type { HostId, InstanceId } from "../../../../proto/ids.ts";
import { deployment } from "../../../fakes/deployment-ports.ts";
import { gib, gpu, inventory } from "../../../fakes/fleet-records.ts";

const host = {
  id: "host-1" as HostId,
  inventory: inventory({ gpus: [gpu(0, { memoryBytes: 24 * gib })], memoryBytes: 32 * gib, cpuCores: 16 }),
};

/** Resources of one instance that has a third of the host's only GPU. */
async function resources(sleepAfterSeconds: number) {
  const one = deployment({ sleepAfterSeconds });
  const row: DesiredRow = {
    instance: {
      id: "instance-1" as InstanceId,
      deployId: one.id,
      generation: 1,
      gpuUuids: host.inventory.gpus.map(({ uuid }) => uuid),
      gpuShare: 1 / 3,
      gpuMemoryBytes: 8 * gib,
      awaitedAtMs: 0,
    },
    deployment: one,
    standardArgs: {},
    weights: one.weights,
    weightsToken: null,
    agentInstance: undefined,
    adapters: [],
  };
  const rows = { nodeEpoch: 1n, generation: 1n, tombstones: [], emptiedByMs: 0, moved: [], prefetch: [] };
  const found = await desiredSet(
    {
      store: { desired: async () => ({ ...rows, instances: [row] }) },
      openToken: async () => "",
      log: pino({ enabled: false }),
    },
    host,
  );
  return found?.instances.map(({ memoryBytes, cpus, gpuShare }) => ({ memoryBytes, cpus, gpuShare }));
}

describe("the desired state of a host", () => {
  it("limits an instance on a shared GPU to its share of the host", async () => {
    expect(await resources(0)).toEqual([{ memoryBytes: Math.floor(32 * gib * 0.3), cpus: 5.33, gpuShare: 1 / 3 }]);
  });

  it("limits one that sleeps by its whole GPU: its weights move into the host's memory", async () => {
    expect(await resources(60)).toEqual([{ memoryBytes: Math.floor(32 * gib * 0.9), cpus: 16, gpuShare: 1 / 3 }]);
  });
});
