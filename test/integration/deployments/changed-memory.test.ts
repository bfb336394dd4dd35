// GPU memory claims follow the concurrency of a deployment: two replicas, eight GPUs, a real database.
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { updateDeployment } from "../../../control-plane/deployments/change.ts";
import { versionOf } from "../../../control-plane/deployments/create.ts";
import { changedMemory } from "../../../control-plane/deployments/expected-memory.ts";
import type { DeploymentId } from "../../../proto/ids.ts";
import { ada, gpuDefaults, type Replica } from "../fleet/replica.ts";
import { type GpuWorld, gib, startGpuWorld, wait } from "./gpu-world.ts";

let world: GpuWorld;
let replica: Replica;
beforeAll(async () => {
  world = await startGpuWorld();
  replica = world.replicas[0] as Replica;
  const of = { version: versionOf({ repo: "ada/small", revision: "main" }), engine: "stoker", gpu: "H100-80GB" };
  await replica.db
    .insertInto("measuredMemory")
    .values([
      { ...of, settings: "1 2 0 ", peakBytes: BigInt(10 * gib), expectedBytes: 0n },
      { ...of, settings: "1 16 0 ", peakBytes: BigInt(60 * gib), expectedBytes: 0n },
    ])
    .execute();
});
afterAll(() => world?.stop());

const letIn = (id: DeploymentId, maxConcurrentRequests: number) =>
  updateDeployment(replica.deploymentStore, ada.account, id, { standardArgs: { maxConcurrentRequests } }, gpuDefaults, {
    memory: (now, next) =>
      changedMemory({ measuredMemory: replica.measuredMemory.find }, now, next, 0, async () => undefined),
  });
const record = async (id: DeploymentId) => await replica.get(id);
/** Bytes on each GPU that is in use, the largest sum last. */
async function claims(): Promise<number[][]> {
  const byGpu = Map.groupBy(await world.instancesOnGpus(), ({ hostId, gpu }) => `${hostId} ${gpu}`);
  const all = [...byGpu.values()].map((there) => there.map(({ bytes }) => bytes / gib).toSorted((a, b) => a - b));
  return all.toSorted((a, b) => sum(a) - sum(b));
}
const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);
const near = (bytes: number) => expect.closeTo(bytes, 3);

it("raised concurrency claims more, a failed update claims as before, and lowered concurrency frees memory", async () => {
  const one = await world.deploy(ada, "one", { isSmall: true });
  const two = await world.deploy(ada, "two", { isSmall: true });
  await vi.waitFor(async () => expect(await claims()).toEqual([[near(25.2), near(25.2)]]), wait);
  const served = async (id: DeploymentId) =>
    vi.waitFor(async () => expect(await record(id)).toMatchObject({ status: "deployed", running: 1 }), wait);
  await Promise.all([served(one), served(two)]);

  // There is no room for that beside the other one.
  await letIn(one, 16);
  await vi.waitFor(async () => expect(await claims()).toEqual([[near(25.2)], [near(63)]]), wait);
  await served(one);
  expect(await record(one)).toMatchObject({ spec: 2, servingSpec: 2, isMemoryBound: true });

  // Of so many nobody knows what they take: a GPU of its own, until it turns out that they do not run.
  for (const agent of world.agents)
    agent.obeyEach(({ maxBatchSize }) =>
      maxBatchSize === 32 ? { phase: "failed", failCode: "start_failed", failMessage: "no" } : { phase: "ready" },
    );
  await letIn(two, 32);
  await vi.waitFor(async () => expect((await record(two))?.updateError).toBe("start_failed: no"), wait);
  expect(await record(two)).toMatchObject({ spec: 1, isMemoryBound: true, memoryBytes: Math.ceil(25.2 * gib) });

  // What it is known not to need it does not keep, and both have room on one GPU again.
  await letIn(one, 2);
  await vi.waitFor(async () => expect(await claims()).toEqual([[near(10.5), near(25.2)]]), wait);
  expect(await world.checkClaims()).toBe(1);

  // Of what is not known to take less nothing starts anew.
  const { spec } = (await record(one)) ?? {};
  await letIn(one, 1);
  await vi.waitFor(() => {
    const told = world.agents.flatMap((agent) => agent.desired?.instances ?? []);
    expect(told.map(({ maxBatchSize }) => maxBatchSize).toSorted()).toEqual([1, 4]);
  }, wait);
  expect(await record(one)).toMatchObject({ spec, isMemoryBound: true, memoryBytes: Math.ceil(10.5 * gib) });
  await world.removeAll([
    [ada, one],
    [ada, two],
  ]);
});
