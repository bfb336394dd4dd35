// Updates on a real database and a scripted host of four GPUs: beside the old instance, in its place, and back again.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type SettingsUpdate, updateDeployment } from "../../../control-plane/deployments/change.ts";
import { deploymentVersions, versionToReturnTo } from "../../../control-plane/deployments/versions.ts";
import type { InstanceReport } from "../../../proto/gen/stoker/fleet/v1/InstanceReport.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, gpuDefaults, type Replica, startReplica } from "../fleet/replica.ts";

const wait = { timeout: 20_000, interval: 25 };
let postgres: TestDatabases;
let replica: Replica;
let agent: FakeAgent;

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  replica = await startReplica(await postgres.migratedDatabase());
  agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "host-1" });
  agent.connect();
  agent.obey("ready");
});
afterEach(async () => {
  await agent.close();
  await replica.stop();
});

const record = async (id: DeploymentId) => await replica.get(id);
const ready = (id: DeploymentId) => replica.routing.ready(id).map((route) => route.instanceId);
const change = (id: DeploymentId, update: SettingsUpdate) =>
  updateDeployment(replica.deploymentStore, ada.account, id, update, gpuDefaults);
/** An instance of it takes so much from then on. */
const putTaking = (memoryBytes: number, id: DeploymentId, extraArgs: string[]) =>
  updateDeployment(replica.deploymentStore, ada.account, id, { extraArgs }, gpuDefaults, {
    memory: async () => ({ memoryBytes, isMemoryBound: false }),
  });
const put = (id: DeploymentId, extraArgs: string[]) => change(id, { extraArgs });
/** What instances of the first update report; all others serve. */
const newOnes = (over: Partial<InstanceReport>) =>
  agent.obeyEach(({ extraArgs }) => (extraArgs[0] === "--max-model-len=1024" ? over : { phase: "ready" }));
const gaveUp = { phase: "failed", failCode: "start_failed", failMessage: "the model server ended with 1" };
const argsOf = (n: number) => agent.desired?.instances[n]?.extraArgs;

async function deployed(numGpus: number): Promise<DeploymentId> {
  const { id } = await replica.deploy({ numGpus });
  await vi.waitFor(() => expect(ready(id)).toHaveLength(1), wait);
  await vi.waitFor(async () => expect((await record(id))?.status).toBe("deployed"), wait);
  return id;
}

it("returns to the version before, by the arguments it ran with, and to any other", async () => {
  const id = await deployed(1);
  const store = replica.deploymentStore;
  const settled = (args: readonly string[]) =>
    vi.waitFor(async () => {
      expect(await record(id)).toMatchObject({ status: "deployed", extraArgs: args });
      expect(agent.desired?.instances.map(({ extraArgs }) => extraArgs)).toEqual([args]);
    }, wait);
  await expect(versionToReturnTo(store, ada.account, id, undefined)).rejects.toThrow("no earlier version");
  for (const args of [["--max-model-len=2048"], ["--max-model-len=4096"]]) {
    await put(id, args);
    await settled(args);
  }
  const before = await versionToReturnTo(store, ada.account, id, undefined);
  expect(before).toMatchObject({ version: 2, extraArgs: ["--max-model-len=2048"], isDesired: false });
  await change(id, before);
  await settled(["--max-model-len=2048"]);
  await change(id, await versionToReturnTo(store, ada.account, id, 1));
  await settled([]);
  const versions = await deploymentVersions(store, ada.account, id);
  expect(versions.map(({ version, isDesired }) => [version, isDesired])).toEqual([
    [5, true],
    [4, false],
    [3, false],
    [2, false],
    [1, false],
  ]);
  await expect(versionToReturnTo(store, ada.account, id, 9)).rejects.toThrow("no version 9");
  await expect(deploymentVersions(store, "u:other" as AccountId, id)).rejects.toThrow("not found");
});

describe("an update", () => {
  it("starts a new instance beside the old one, which retains its arguments and requests until the new one serves", async () => {
    const id = await deployed(1);
    const [old] = ready(id);
    newOnes({ phase: "loading" });
    await put(id, ["--max-model-len=1024"]);
    await vi.waitFor(() => expect(agent.desired?.instances).toHaveLength(2), wait);
    const specs = new Map(agent.desired?.instances.map((spec) => [spec.instanceId as string, spec]));
    expect(specs.get(old as string)).toMatchObject({ generation: "1", extraArgs: [], contextLength: 0 });
    const [fresh] = [...specs.keys()].filter((one) => one !== old);
    expect(specs.get(fresh as string)).toMatchObject({
      generation: "2",
      extraArgs: ["--max-model-len=1024"],
      contextLength: 1024,
    });
    expect(ready(id)).toEqual([old]);
    expect(await record(id)).toMatchObject({ status: "updating", rollout: { outdated: 1, booting: 1, upToDate: 0 } });
    agent.obey("ready");
    await vi.waitFor(() => expect(ready(id)).toEqual([fresh]), wait);
    await vi.waitFor(async () => expect(await record(id)).toMatchObject({ status: "deployed", servingSpec: 2 }), wait);
  });

  it("changes the instance in place if no other GPU is free", async () => {
    const id = await deployed(4);
    const [old] = ready(id);
    await put(id, ["--max-model-len=1024"]);
    await vi.waitFor(() => expect(argsOf(0)).toEqual(["--max-model-len=1024"]), wait);
    expect(agent.desired?.instances).toHaveLength(1);
    expect(agent.desired?.instances[0]?.instanceId).toBe(old);
    await vi.waitFor(async () => expect(await record(id)).toMatchObject({ status: "deployed", servingSpec: 2 }), wait);
  });

  it("that does not fit on the instance's own GPUs either leaves it serving, and reports what is missing", async () => {
    const id = await deployed(4);
    const [before] = agent.desired?.instances ?? [];
    await putTaking(5 * 1024 ** 3, id, ["--max-model-len=1024"]);
    await vi.waitFor(async () => expect((await record(id))?.pendingReasons).toHaveLength(1), wait);
    expect(await record(id)).toMatchObject({ status: "updating", running: 1 });
    expect(agent.desired?.instances).toEqual([before]);
    await putTaking(4 * 1024 ** 3, id, []);
    await vi.waitFor(async () => expect(await record(id)).toMatchObject({ status: "deployed", spec: 1 }), wait);
    // It runs just that: nothing starts anew.
    expect(agent.desired?.instances).toEqual([before]);
  });

  it("that its owner reverts removes its new instances, and leaves the serving ones", async () => {
    const id = await deployed(1);
    const [before] = agent.desired?.instances ?? [];
    newOnes({ phase: "loading" });
    await change(id, { standardArgs: { maxContextSize: 1024, kvCacheDtype: "auto" } });
    await vi.waitFor(() => expect(agent.desired?.instances).toHaveLength(2), wait);
    await change(id, { standardArgs: {} });
    await vi.waitFor(async () => expect(await record(id)).toMatchObject({ status: "deployed", spec: 1 }), wait);
    await vi.waitFor(() => expect(agent.desired?.instances).toEqual([before]), wait);
    // The next one has a number of its own again.
    agent.obey("ready");
    await put(id, ["--max-model-len=512"]);
    await vi.waitFor(async () => expect(await record(id)).toMatchObject({ status: "deployed", servingSpec: 3 }), wait);
    await vi.waitFor(() => expect(argsOf(0)).toEqual(["--max-model-len=512"]), wait);
  });

  it("that gives up is harmless: the old instance continues, the new one is removed, the reason is reported", async () => {
    const id = await deployed(1);
    const [old] = ready(id);
    newOnes(gaveUp);
    await change(id, { standardArgs: { maxContextSize: 1024 } });
    expect(await record(id)).toMatchObject({ standardArgs: { maxContextSize: 1024 }, contextLength: 1024 });
    await vi.waitFor(async () => {
      expect(await record(id)).toMatchObject({
        status: "deployed",
        failReason: "",
        extraArgs: [],
        standardArgs: {},
        updateError: "start_failed: the model server ended with 1",
      });
    }, wait);
    expect(ready(id)).toEqual([old]);
    await vi.waitFor(() => expect(agent.desired?.instances).toHaveLength(1), wait);
    // The next one is told anew.
    await change(id, { extraArgs: ["--flash-attn=on"], standardArgs: { maxContextSize: 2048 } });
    await vi.waitFor(async () => expect(await record(id)).toMatchObject({ status: "deployed", updateError: "" }), wait);
    await vi.waitFor(
      () =>
        expect(agent.desired?.instances.map((one) => one.extraArgs)).toEqual([
          ["--flash-attn=on", "--max-model-len=2048"],
        ]),
      wait,
    );
    // Each of the two sets is replaced without the other.
    await change(id, { extraArgs: [] });
    expect(await record(id)).toMatchObject({
      extraArgs: ["--max-model-len=2048"],
      standardArgs: { maxContextSize: 2048 },
    });
    await expect(change(id, { standardArgs: { maxConcurrentRequests: 257 } })).rejects.toThrow(/must be at most 256/);
    await expect(put(id, ["--dtype=bfloat16"])).rejects.toThrow(/has no effect on the engine stoker/);
    // What an older version took stays beside what is said anew.
    const older = { extraArgs: ["--dtype=bfloat16"], standardArgs: "{}" };
    await replica.db.updateTable("deployment").set(older).where("deployId", "=", id).execute();
    await change(id, { standardArgs: { maxContextSize: 512 } });
    expect(await record(id)).toMatchObject({ extraArgs: ["--dtype=bfloat16", "--max-model-len=512"] });
    // So it does where a client says the whole set again, with one more.
    await put(id, ["--dtype=bfloat16", "--flash-attn=off"]);
    expect(await record(id)).toMatchObject({
      extraArgs: ["--dtype=bfloat16", "--flash-attn=off", "--max-model-len=512"],
    });
    await expect(put(id, ["--dtype=float16"])).rejects.toThrow(/has no effect on the engine stoker/);
    await expect(put(id, ["--dtype=bfloat16", "--dtype=bfloat16"])).rejects.toThrow(/twice/);
  });

  it("to lower concurrency applies in place, and one to higher concurrency starts a new instance", async () => {
    const id = await deployed(1);
    const [old] = ready(id);
    await change(id, { standardArgs: { maxConcurrentRequests: 2 } });
    await vi.waitFor(() => expect(agent.desired?.instances[0]?.maxBatchSize).toBe(2), wait);
    expect(agent.desired?.instances).toMatchObject([{ instanceId: old, generation: "1" }]);
    await vi.waitFor(() => expect(replica.routing.ready(id)).toMatchObject([{ maxBatchSize: 2 }]), wait);
    expect(await record(id)).toMatchObject({
      ...{ status: "deployed", spec: 1, maxBatchSize: 4 },
      standardArgs: { maxConcurrentRequests: 2 },
    });
    agent.obeyEach(({ maxBatchSize }) => ({ phase: maxBatchSize === 8 ? "loading" : "ready" }));
    await change(id, { standardArgs: { maxConcurrentRequests: 8 } });
    // The old one beside it takes no more than it was started for.
    await vi.waitFor(
      () => expect(replica.routing.ready(id)).toMatchObject([{ instanceId: old, maxBatchSize: 4 }]),
      wait,
    );
    agent.obey("ready");
    await vi.waitFor(() => expect(ready(id)).not.toContain(old), wait);
    await vi.waitFor(() => expect(agent.desired?.instances).toMatchObject([{ maxBatchSize: 8 }]), wait);
    expect(agent.desired?.instances[0]?.generation).toBe("2");
    // Without a word it is as it was made.
    await change(id, { standardArgs: {} });
    await vi.waitFor(
      () => expect(agent.desired?.instances).toMatchObject([{ maxBatchSize: 4, generation: "2" }]),
      wait,
    );
  });

  it("that gives up does not undo an earlier lowering", async () => {
    const id = await deployed(1);
    await change(id, { standardArgs: { maxConcurrentRequests: 2 } });
    newOnes(gaveUp);
    await put(id, ["--max-model-len=1024"]);
    await vi.waitFor(async () => {
      expect(await record(id)).toMatchObject({
        ...{ status: "deployed", extraArgs: [], standardArgs: { maxConcurrentRequests: 2 } },
        updateError: "start_failed: the model server ended with 1",
      });
    }, wait);
    await vi.waitFor(() => expect(agent.desired?.instances).toMatchObject([{ maxBatchSize: 2, extraArgs: [] }]), wait);
  });

  it("in place that gives up is reverted in place, as a newer generation with the old arguments", async () => {
    const id = await deployed(4);
    const [old] = ready(id);
    newOnes(gaveUp);
    await put(id, ["--max-model-len=1024"]);
    await vi.waitFor(() => expect(agent.desired?.instances[0]?.generation).toBe("3"), wait);
    expect(agent.desired?.instances[0]).toMatchObject({ instanceId: old, extraArgs: [] });
    await vi.waitFor(async () => {
      expect(await record(id)).toMatchObject({
        status: "deployed",
        updateError: "start_failed: the model server ended with 1",
      });
    }, wait);
    await vi.waitFor(() => expect(ready(id)).toEqual([old]), wait);
  });
});

it("a started update is finished by another control plane if this one ends", async () => {
  const url = await postgres.migratedDatabase();
  const first = await startReplica(url, { owner: "first" });
  const host = await startFakeAgent({ address: first.address, token: first.joinToken, hostId: "host-1" });
  host.connect();
  host.obeyEach(({ extraArgs }) => ({ phase: extraArgs.length > 0 ? "loading" : "ready" }));
  const { id } = await first.deploy();
  await vi.waitFor(async () => expect((await first.get(id))?.status).toBe("deployed"), wait);
  await updateDeployment(first.deploymentStore, ada.account, id, { extraArgs: ["--max-model-len=1024"] }, gpuDefaults);
  await vi.waitFor(() => expect(host.desired?.instances).toHaveLength(2), wait);
  const ids = host.desired?.instances.map((one) => one.instanceId).sort();
  const { port } = first;
  await first.stop();

  const second = await startReplica(url, { owner: "second", port });
  try {
    host.disconnect();
    host.connect();
    host.obeyEach(() => ({ phase: "ready" }));
    await vi.waitFor(
      async () => expect(await second.get(id)).toMatchObject({ status: "deployed", servingSpec: 2 }),
      wait,
    );
    await vi.waitFor(() => expect(second.routing.ready(id)).toHaveLength(1), wait);
    // Nothing was begun again.
    expect(ids).toContain(second.routing.ready(id)[0]?.instanceId);
  } finally {
    await host.close();
    await second.stop();
  }
});

it("more instances than the account can fund for the first minutes are refused, fewer are not", async () => {
  const { id } = await replica.deploy({ maxInstances: 4 });
  const scale = (minInstances: number) =>
    updateDeployment(replica.deploymentStore, ada.account, id, { minInstances }, gpuDefaults, {
      funds: async () => 250n,
      firstMinutes: async (_gpu, _gpus, count) => 100n * BigInt(count),
    });
  await expect(scale(4)).rejects.toMatchObject({ code: "insufficient_quota" });
  await scale(3);
  await vi.waitFor(() => expect(ready(id)).toHaveLength(3), wait);
  await scale(1);
});
