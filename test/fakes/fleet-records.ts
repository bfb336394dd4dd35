// Records of the fleet with everything filled in, for tests that speak of a few fields only.
import type { PlacedInstance } from "../../control-plane/deployments/deployment.ts";
import type { PreviewDrain } from "../../control-plane/deployments/drain-preview.ts";
import type { EnrolmentOverview } from "../../control-plane/fleet/enrolment.ts";
import { nodeNotFound } from "../../control-plane/fleet/errors.ts";
import type { Gpu, HostView, Inventory } from "../../control-plane/fleet/host.ts";
import type { HostOperations, NodeView } from "../../control-plane/fleet/host-operations.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";

export const gib = 1024 ** 3;
export const account = "u:0000000000001" as AccountId;

export function gpu(index: number, over: Partial<Gpu> = {}): Gpu {
  return {
    uuid: `GPU-${index}`,
    index,
    type: "other",
    name: "virtual",
    memoryBytes: gib,
    isHealthy: true,
    unhealthyReason: "",
    faultId: "",
    migProfile: "",
    ...over,
  };
}

export function inventory(over: Partial<Inventory> = {}): Inventory {
  return {
    os: "linux",
    cpuModel: "test",
    cpuCores: 2,
    memoryBytes: 4 * gib,
    diskTotalBytes: 100 * gib,
    diskFreeBytes: 50 * gib,
    gpus: [gpu(0), gpu(1), gpu(2), gpu(3)],
    drivers: ["process", "external"],
    dockerVersion: "",
    nvidiaDriverVersion: "",
    cudaVersion: "",
    hasNvidiaRuntime: false,
    cpuPhysicalCores: 1,
    disks: [],
    networks: [],
    warnings: [],
    metricsAddress: "",
    ...over,
  };
}

export function hostView(id: string, over: Partial<HostView> = {}): HostView {
  return {
    id: id as HostId,
    hostname: id,
    advertise: "http://127.0.0.1:9100",
    inventory: inventory(),
    nodeEpoch: 1n,
    generation: 0n,
    revision: 0n,
    schedulable: true,
    condition: "",
    agentVersion: "test",
    claims: [],
    grantedMemoryBytes: 0,
    pool: "",
    keptWeights: new Set(),
    gpuMemoryUsed: new Map(),
    createdAtMs: 0,
    state: "live",
    silentMs: 0,
    ...over,
  };
}

export function placedInstance(id: string, over: Partial<PlacedInstance> = {}): PlacedInstance {
  return {
    id: id as InstanceId,
    deployId: "D000000000000001" as DeploymentId,
    hostId: "h1" as HostId,
    generation: 1,
    spec: 1,
    observedGeneration: 1,
    phase: "pending",
    failCode: "",
    failMessage: "",
    gpuUuids: [],
    gpuShare: 1,
    gpuMemoryBytes: 0,
    isTombstoned: false,
    createdAtMs: 0,
    isHostLost: false,
    ...over,
  };
}

/** With figures of everything that a host may tell. */
export const hostNode: NodeView = {
  ...hostView("node-1", {
    inventory: inventory({ gpus: [gpu(0, { cordonedAtMs: 1_786_000_000_000, isHealthy: false })] }),
  }),
  instances: [
    {
      id: "instance-1" as InstanceId,
      deployId: "D000000000000001" as DeploymentId,
      modelName: "ada/llm",
      kind: "model",
      account,
      email: "ada@example.com",
      hostId: "node-1" as HostId,
      gpuUuids: ["GPU-0"],
      isMovable: true,
      inFlight: 0,
      formats: ["responses"],
    },
  ],
  figures: {
    ageMs: 1_500,
    live: {
      load: { cpuRatio: 0.5, memoryUsedBytes: 1, memoryTotalBytes: 2, diskFreeBytes: 1, diskTotalBytes: 2 },
      gpus: [{ uuid: "GPU-0", utilizationRatio: 0.25, powerWatts: 71.5, processes: [] }],
      gpuSampleAgeMs: 500,
      spool: { records: 1, bytes: 300, oldestAgeSeconds: 2 },
      clockSkewSeconds: 0.001,
      instances: [
        {
          instanceId: "instance-1" as InstanceId,
          deployId: "D000000000000001" as DeploymentId,
          phase: "ready",
          inFlight: 3,
          waiting: 1,
          tokensPerSecond: 40.5,
          restarts: 0,
          memoryBytes: 1024,
          gpuUuids: ["GPU-0"],
        },
      ],
    },
  },
};

/** A token that nobody used, and a host that has not connected. */
export const fakeEnrolment: EnrolmentOverview = {
  authority: { hash: "hash-of-the-authority", notAfterMs: 1_900_000_000_000, lifeMs: 72 * 3_600_000 },
  tokens: [
    {
      id: "token-1",
      pool: "lab",
      forHost: null,
      createdBy: "u:operator",
      createdAtMs: 1_786_000_000_000,
      expiresAtMs: 1_786_000_900_000,
      usedAtMs: null,
      usedBy: null,
    },
  ],
  hosts: [
    {
      id: "node-9" as HostId,
      hostname: null,
      pool: "lab",
      enrolledAtMs: 1_786_000_000_000,
      certificateExpiresAtMs: 1_786_259_200_000,
      revokedAtMs: null,
    },
  ],
};

/** Its one instance finds no other host. */
export const fakeDrainPreview: PreviewDrain = async () =>
  hostNode.instances.map((one) => ({
    ...one,
    phase: "ready",
    outcome: "waits",
    to: undefined,
    reasons: [{ host: "node-2", why: "0 of 1 other GPUs are free; 1 needed" }],
    servingElsewhere: 0,
  }));

/** Verbs over that one host. */
export function fakeHosts(): HostOperations {
  const own = (node: string): Promise<HostId> =>
    node === hostNode.id ? Promise.resolve(hostNode.id) : Promise.reject(nodeNotFound(node));
  return {
    list: () => Promise.resolve([hostNode]),
    get: async (node) => {
      await own(node);
      return hostNode;
    },
    uncordon: () => Promise.resolve(hostNode),
    cordon: own,
    end: async (node) => (await own(node)) !== undefined,
    drain: own,
    progress: async (node) => {
      await own(node);
      return { host: hostNode.id, total: 3, left: 1, fixed: 1, inFlight: 4 };
    },
    remove: own,
    endUnknown: async (node) => ({ host: await own(node), instances: ["stranger" as InstanceId] }),
    idOf: async (node) => node as HostId,
    rebalance: async () => ({
      gpu: "other",
      host: hostNode.id,
      largestNow: 1,
      largestAfter: 2,
      moves: [
        {
          instance: "instance-1" as InstanceId,
          deployId: "D000000000000001" as DeploymentId,
          modelName: "ada/llm",
          from: hostNode.id,
          to: "node-2" as HostId,
          gpus: 1,
          gapSeconds: 0,
        },
      ],
    }),
  };
}
