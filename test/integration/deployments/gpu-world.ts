// Two replicas and two agents with eight GPUs and the slices of a ninth, on a real PostgreSQL.
import { randomBytes } from "node:crypto";
import { expect, vi } from "vitest";
import { deleteDeployment } from "../../../control-plane/deployments/change.ts";
import { createDeployment, type Owner, versionOf } from "../../../control-plane/deployments/create.ts";
import type { HostClockLimits } from "../../../control-plane/fleet/host-clocks.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres } from "../../fakes/postgres.ts";
import { freeTime, gpuDefaults, type Replica, startReplica } from "../fleet/replica.ts";

export const wait = { timeout: 30_000, interval: 50 };
export const gib = 1024 ** 3;
export const bob: Owner = { account: "u:bob" as AccountId, displayName: "bob", suspendReason: null };
const slicesGib = [40, 20, 10];
const small = { repo: "ada/small", revision: "main" };

export interface Kind {
  readonly gpu?: "other";
  readonly numGpus?: number;
  readonly isSmall?: boolean;
  readonly repo?: string;
  readonly instances?: number;
}

export type GpuWorld = Awaited<ReturnType<typeof startGpuWorld>>;

/** `limits`: of the hosts' clocks; by default the real ones. */
export async function startGpuWorld(limits?: HostClockLimits) {
  const postgres = await sharedPostgres();
  const url = await postgres.migratedDatabase();
  const options = limits ? { limits } : {};
  const first = await startReplica(url, { owner: "a", ...options });
  const replicas: Replica[] = [first, await startReplica(url, { owner: "b", ...options })];
  const addressOf = (n: number) => (replicas[n % replicas.length] as Replica).address;
  await first.db
    .insertInto("account")
    .values({
      ...{ accountId: bob.account, email: "bob@example.com", displayName: "bob", suspendReason: null },
      ...{ wrappedDek: randomBytes(60), kekVersion: 1, deletedAt: null },
    })
    .execute();
  const measured = { version: versionOf(small), engine: "stoker", settings: "1 4 0 ", expectedBytes: 0n };
  await first.db
    .insertInto("measuredMemory")
    .values([
      // Three of these have room on one GPU,
      { ...measured, gpu: "H100-80GB", peakBytes: BigInt(24 * gib) },
      // one of these on the second slice, and two on the first.
      { ...measured, gpu: "other", peakBytes: BigInt(16 * gib) },
    ])
    .execute();
  const agents: FakeAgent[] = await Promise.all(
    ["host-1", "host-2"].map((hostId, n) =>
      startFakeAgent({
        ...{ address: addressOf(n), token: first.joinToken, hostId, gpus: 4, hasDriver: true },
        slices: n === 1 ? slicesGib : [],
      }),
    ),
  );
  for (const agent of agents) {
    agent.obey("ready");
    agent.connect();
  }

  async function deploy(owner: Owner, name: string, over: Kind) {
    const [replica] = replicas as [Replica];
    const deployment = await createDeployment(
      {
        ...{ store: replica.deploymentStore, ...freeTime, gpuDefaults },
        measuredMemory: replica.measuredMemory.find,
        sealToken: async (_, token) => Buffer.from(token),
        demoModel: () => undefined,
        publicModel: async () => undefined,
        lookAtRepo: async () => ({ kind: "unreachable" }),
      },
      owner,
      {
        ...{
          modelName: `${owner.displayName}/${name}`,
          gpu: over.gpu ?? "H100-80GB",
          maxBatchSize: 4,
          baseModel: undefined,
        },
        ...{ hf: { repo: over.repo ?? (over.isSmall ? small.repo : "ada/large") }, extraArgs: [] },
        ...{ engine: undefined, image: undefined },
        numGpus: over.numGpus ?? 1,
        minInstances: over.instances ?? 1,
        maxInstances: over.instances ?? 1,
      },
    );
    return deployment.id;
  }

  /** What stands in the rows, judged without the walls that made them. Returns how many GPUs are in use. */
  async function checkClaims(): Promise<number> {
    const { rows } = { rows: await instancesOnGpus() };
    const byGpu = Map.groupBy(rows, (row) => `${row.hostId} ${row.gpu}`);
    for (const [gpu, there] of byGpu) {
      expect(new Set(there.map((row) => row.accountId)).size, gpu).toBe(1);
      if (there.some((row) => row.bytes === 0)) expect(there, gpu).toHaveLength(1);
      expect(
        there.reduce((sum, row) => sum + row.bytes, 0),
        gpu,
      ).toBeLessThanOrEqual(sizeOf(there[0]?.gpu ?? ""));
    }
    for (const agent of agents) {
      const told = (agent.desired?.instances ?? []).flatMap((one) =>
        (one.gpuUuids ?? []).map((gpu) => ({ gpu, bytes: Number(one.gpuMemoryBytes) })),
      );
      for (const [gpu, there] of Map.groupBy(told, (one) => one.gpu))
        if (there.some((one) => one.bytes === 0)) expect(there, `told of ${gpu}`).toHaveLength(1);
    }
    return byGpu.size;
  }

  const sizeOf = (uuid: string) => (uuid.startsWith("MIG-") ? (slicesGib[Number(uuid.at(-1))] ?? 0) : 80) * gib;

  async function instancesOnGpus() {
    const rows = await (replicas[0] as Replica).db
      .selectFrom("instance")
      .select(["instanceId", "hostId", "accountId", "gpuUuids", "gpuMemoryBytes"])
      .execute();
    return rows.flatMap((row) => row.gpuUuids.map((gpu) => ({ ...row, gpu, bytes: Number(row.gpuMemoryBytes) })));
  }

  /** As agents do: a session that ended is opened anew. */
  function comeBack(cut: ReadonlyMap<FakeAgent, number> = new Map()): void {
    for (const agent of agents) if (agent.ended !== undefined && !cut.has(agent)) agent.connect();
  }

  /** Nothing is left of what ended: no claim, no share. */
  async function removeAll(live: readonly (readonly [Owner, DeploymentId])[]): Promise<void> {
    const [{ db, deploymentStore }] = replicas as [Replica];
    for (const [owner, id] of live) await deleteDeployment(deploymentStore, owner.account, id);
    await vi.waitFor(async () => {
      comeBack();
      expect(await db.selectFrom("instance").select("instanceId").execute()).toEqual([]);
      expect(await db.selectFrom("gpuClaim").selectAll().execute()).toEqual([]);
    }, wait);
  }

  return {
    url,
    replicas,
    agents,
    deploy,
    instancesOnGpus,
    checkClaims,
    comeBack,
    removeAll,
    async stop() {
      await Promise.all(agents.map((agent) => agent.close()));
      await Promise.all(replicas.map((replica) => replica.stop()));
      await postgres.stop();
    },
  };
}
