// Deployments with ready instances on GPUs of a type of their own, for tests of what GPU time costs.

import { type GpuMinute, readGpuMinute } from "../../../control-plane/billing/gpu-minute.ts";
import type { GpuType } from "../../../proto/gpu.ts";
import { gpuMinuteId } from "../../../proto/gpu-minute.ts";
import { type AccountId, type DeploymentId, type HostId, type InstanceId, randomId } from "../../../proto/ids.ts";
import type { World } from "./world.ts";

export interface InstanceOptions {
  /** Nano-USD; USD 100 when left out. */
  readonly credit?: bigint;
  readonly gpus?: number;
  /** "host" when left out. */
  readonly host?: string;
  /** Long ago when left out. */
  readonly createdAt?: Date;
}

/** An instance of its own account, ready unless said otherwise, on GPUs of a type of its own. */
export async function addInstance(world: Pick<World, "db" | "account">, options: InstanceOptions) {
  const { db } = world;
  const account: AccountId = await world.account(options.credit ?? 100_000_000_000n);
  const deployId = randomId<"deployment">(16);
  const instance = randomId<"instance">(16);
  const gpu = `test-${instance}`;
  const gpus = options.gpus ?? 1;
  const host = (options.host ?? "host") as HostId;
  const createdAt = options.createdAt ?? new Date(Date.UTC(2025, 11, 1));
  await db
    .insertInto("deployment")
    .values({
      deployId: deployId,
      accountId: account,
      modelName: `acme/${instance}`,
      version: "v",
      task: "text-generation",
      type: "llm",
      engine: "stoker",
      status: "deployed",
      gpu: gpu as GpuType,
      numGpus: gpus,
      maxBatchSize: 1,
      minInstances: 1,
      maxInstances: 1,
      weights: "{}",
      weightsToken: null,
      extraArgs: [],
      externalUrl: null,
      contextLength: 0,
      memoryBytes: 0n,
      pendingReasons: "[]",
    })
    .execute();
  await db
    .insertInto("host")
    .values({
      hostId: host,
      hostname: host,
      advertise: "http://127.0.0.1:1",
      inventory: "{}",
      nodeEpoch: 1n,
      ticketKey: Buffer.alloc(32),
      agentVersion: "1",
      seenAt: new Date(),
    })
    .onConflict((at) => at.doNothing())
    .execute();
  await insertInstance(world, { instance, deployId, account, host, createdAt });
  return { account, deployId, instance, gpu, gpus, host, createdAt };
}
type Running = Awaited<ReturnType<typeof addInstance>>;

/** Another instance of the same deployment. */
export async function addSibling(world: World, of: Running): Promise<Running> {
  const instance = randomId<"instance">(16);
  await insertInstance(world, { ...of, instance });
  return { ...of, instance };
}

async function insertInstance(
  world: Pick<World, "db">,
  of: {
    readonly instance: InstanceId;
    readonly deployId: DeploymentId;
    readonly account: AccountId;
    readonly host: HostId;
    readonly createdAt: Date;
  },
): Promise<void> {
  await world.db
    .insertInto("instance")
    .values({
      instanceId: of.instance,
      deployId: of.deployId,
      accountId: of.account,
      hostId: of.host,
      createdAt: of.createdAt,
      generation: 1,
      gpuUuids: ["GPU-1"],
      phase: "ready",
    })
    .execute();
}

/** As an agent sends them. */
export function minutesOf(of: Running, fromMs: number, count: number, readyMs = 60_000): GpuMinute[] {
  return Array.from({ length: count }, (_, index) => {
    const startMs = fromMs + index * 60_000;
    const wire = {
      requestId: gpuMinuteId(of.instance as InstanceId, startMs),
      attempt: 1,
      admittedAtMs: startMs,
      endedAtMs: startMs + readyMs,
      instanceId: of.instance,
      deployId: of.deployId,
      nodeEpoch: "1",
      source: "engine",
      endReason: "stop",
      readyMs,
    };
    const read = readGpuMinute(wire);
    if (!read) throw new Error("not a GPU minute");
    return read;
  });
}
