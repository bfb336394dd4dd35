// A GPU, or a slice of one, is shared only by small models of one account, also with concurrent control planes.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { versionOf } from "../../../control-plane/deployments/create.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { ada, type Replica } from "../fleet/replica.ts";
import { bob, type GpuWorld, gib, startGpuWorld, wait } from "./gpu-world.ts";

let world: GpuWorld;
beforeAll(async () => {
  world = await startGpuWorld();
});
afterAll(() => world?.stop());

describe("GPUs", () => {
  it("are shared by small models of one account, and never between accounts", async () => {
    const mine = [await world.deploy(ada, "one", { isSmall: true })];
    mine.push(await world.deploy(ada, "two", { isSmall: true }));
    const theirs = await world.deploy(bob, "three", { isSmall: true });
    await vi.waitFor(async () => expect(await world.instancesOnGpus()).toHaveLength(3), wait);
    const rows = await world.instancesOnGpus();
    const gpusOf = (account: AccountId) => [
      ...new Set(rows.filter((row) => row.accountId === account).map((row) => `${row.hostId} ${row.gpu}`)),
    ];
    expect(gpusOf(ada.account)).toHaveLength(1);
    expect(gpusOf(bob.account)).toHaveLength(1);
    expect(gpusOf(bob.account)).not.toEqual(gpusOf(ada.account));
    const instances = await (world.replicas[0] as Replica).deploymentStore.instances(mine[0]);
    expect(instances).toMatchObject([{ gpuShare: expect.closeTo(0.315, 5), gpuMemoryBytes: Math.ceil(25.2 * gib) }]);
    await vi.waitFor(() => {
      const told = world.agents.flatMap((agent) => agent.desired?.instances ?? []);
      expect(told.filter((one) => Number(one.gpuMemoryBytes) === Math.ceil(25.2 * gib))).toHaveLength(3);
    }, wait);
    await world.removeAll([...mine.map((id) => [ada, id] as const), [bob, theirs]]);
  });

  it("are opened for sharing one at a time per account, also by two replicas at the same moment", async () => {
    const { db } = world.replicas[0] as Replica;
    const repos = ["ada/here", "ada/there"];
    for (const [n, repo] of repos.entries()) {
      const of = { version: versionOf({ repo, revision: "main" }), engine: "stoker", settings: "1 4 0 " };
      const bytes = { peakBytes: BigInt(8 * gib), expectedBytes: 0n };
      await db
        .insertInto("measuredMemory")
        .values({ ...of, ...bytes, gpu: "H100-80GB" })
        .execute();
      await db
        .updateTable("host")
        .set({ keptWeights: [`${repo}@main`] })
        .where("hostname", "=", `host-${n + 1}`)
        .execute();
    }
    for (let round = 0; round < 3; round++) {
      const both = await Promise.all(repos.map((repo, n) => world.deploy(ada, `both-${round}-${n}`, { repo })));
      await vi.waitFor(async () => expect(await world.instancesOnGpus()).toHaveLength(2), wait);
      expect(new Set((await world.instancesOnGpus()).map((row) => `${row.hostId} ${row.gpu}`)).size).toBe(1);
      await world.removeAll(both.map((id) => [ada, id] as const));
    }
  });

  it("that are split are allocated by slice: the smallest that holds the model, one account on each", async () => {
    const sliceOf = async (account: AccountId) => [
      ...new Set((await world.instancesOnGpus()).filter((row) => row.accountId === account).map(({ gpu }) => gpu)),
    ];
    const mine = [await world.deploy(ada, "slice-1", { gpu: "other", isSmall: true })];
    await vi.waitFor(async () => expect(await sliceOf(ada.account)).toEqual(["MIG-host-2-1"]), wait);
    const theirs = [await world.deploy(bob, "slice-2", { gpu: "other", isSmall: true })];
    await vi.waitFor(async () => expect(await sliceOf(bob.account)).toEqual(["MIG-host-2-0"]), wait);
    // Room for a second one is left beside Bob's, which is not for Ada: hers waits, and says for what.
    mine.push(await world.deploy(ada, "slice-3", { gpu: "other", isSmall: true }));
    await vi.waitFor(async () => {
      const record = await (world.replicas[0] as Replica).deploymentStore.get(mine[1] as DeploymentId, ada.account);
      expect(record?.pendingReasons).toContainEqual({
        host: "host-2",
        why: expect.stringMatching(/slice \(1g\.10gb\) of 10240 MiB; about 172\d\d MiB needed/),
      });
    }, wait);
    theirs.push(await world.deploy(bob, "slice-4", { gpu: "other", isSmall: true }));
    await vi.waitFor(() => {
      const told = world.agents.flatMap((agent) => agent.desired?.instances ?? []).map(({ gpuUuids }) => gpuUuids);
      expect(told.toSorted()).toEqual([["MIG-host-2-0"], ["MIG-host-2-0"], ["MIG-host-2-1"]]);
    }, wait);
    await world.checkClaims();
    await world.removeAll([...mine.map((id) => [ada, id] as const), ...theirs.map((id) => [bob, id] as const)]);
  });
});
