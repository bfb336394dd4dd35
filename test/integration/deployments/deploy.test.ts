import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import {
  deleteDeployment,
  startDeployment,
  stopDeployment,
  updateDeployment,
} from "../../../control-plane/deployments/change.ts";
import { wouldCreate } from "../../../control-plane/deployments/create.ts";
import { GpuLimitReached } from "../../../control-plane/quotas/errors.ts";
import type { DeploymentId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { longer } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, freeTime, gpuDefaults, type Replica, startReplica } from "../fleet/replica.ts";

const wait = { timeout: 20_000, interval: 25 };
let postgres: TestDatabases;
let url: string;
let replica: Replica;
let agent: FakeAgent;

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  url = await postgres.migratedDatabase();
  replica = await startReplica(url);
  agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "host-1" });
});
afterEach(async () => {
  await agent.close();
  await replica.stop();
});

const status = async (id: DeploymentId) => (await replica.get(id))?.status;
const dryRun = (over: { readonly maxInstances?: number } = {}) =>
  wouldCreate(
    {
      ...{ store: replica.deploymentStore, ...freeTime, gpuDefaults },
      sealToken: async (_, token) => Buffer.from(token),
      demoModel: () => undefined,
      publicModel: async () => undefined,
      lookAtRepo: async () => ({ kind: "unreachable" }),
    },
    ada,
    {
      ...{ modelName: "ada/llm", gpu: "other", numGpus: 1, maxBatchSize: 4, hf: { repo: "ada/weights" } },
      ...{ baseModel: undefined, minInstances: 1, maxInstances: 1, extraArgs: [], ...over },
    },
  );
const ready = (id: DeploymentId) => replica.routing.ready(id);

describe("a deployment", () => {
  it("goes from request to routable: placed once a host is proven, sent, reported, served, removed and deleted", async () => {
    const { id } = await replica.deploy({ hf: { repo: "ada/weights", token: "hf_secret" } });
    await vi.waitFor(async () => {
      expect((await replica.get(id))?.pendingReasons[0]?.why).toContain("no host is connected");
    }, wait);
    // Said once: a reason that stays the same is no news, or every pass would wake the next one.
    const { revision } = (await replica.get(id)) ?? {};
    expect([await replica.controller.pass(), await replica.controller.pass()]).toEqual([0, 0]);
    expect((await replica.get(id))?.revision).toBe(revision);

    agent.connect();
    await vi.waitFor(() => expect(agent.desired?.instances).toHaveLength(1), wait);
    expect(agent.provenTimes).toBeGreaterThan(0);
    expect(agent.desired).toMatchObject({ nodeEpoch: agent.welcome?.nodeEpoch, tombstones: [] });
    const want = agent.desired?.instances[0];
    expect(want).toMatchObject({
      deployId: id,
      engine: "stoker",
      servedModelName: "ada/llm",
      maxBatchSize: 4,
      weights: { repo: "ada/weights", revision: "main", token: "hf_secret" },
    });
    expect(want?.gpuUuids).toHaveLength(1);
    expect(want?.cpus).toBe(1);
    expect(Number(want?.memoryBytes)).toBe(1024 ** 3);

    agent.obey("downloading", { bytesDone: 5, bytesTotal: 10 });
    await vi.waitFor(async () => expect(await status(id)).toBe("downloading"), wait);
    expect((await replica.get(id))?.progress).toEqual({
      phase: "downloading",
      doneBytes: 5,
      totalBytes: 10,
      trouble: "",
    });
    agent.obey("pending", { failCode: "hub_failed", failMessage: "pypi.org cannot be reached" });
    const trouble = "the last try failed: hub_failed: pypi.org cannot be reached";
    await vi.waitFor(
      async () => expect((await replica.get(id))?.progress).toMatchObject({ phase: "pending", trouble }),
      wait,
    );
    agent.obey("loading");
    await vi.waitFor(async () => expect(await status(id)).toBe("deploying"), wait);
    expect(ready(id)).toEqual([]);
    agent.obey("ready");
    await vi.waitFor(async () => expect(await status(id)).toBe("deployed"), wait);
    await vi.waitFor(() => expect(ready(id)).toHaveLength(1), wait);
    expect(ready(id)[0]).toMatchObject({ hostId: "host-1", ticketKey: agent.welcome?.ticketKey, maxBatchSize: 4 });

    await deleteDeployment(replica.deploymentStore, ada.account, id);
    await vi.waitFor(() => expect(ready(id)).toEqual([]), wait);
    await vi.waitFor(async () => {
      expect(await replica.db.selectFrom("instance").selectAll().execute()).toEqual([]);
      expect(await replica.db.selectFrom("gpuClaim").selectAll().execute()).toEqual([]);
    }, wait);
    await vi.waitFor(() => expect(agent.desired).toMatchObject({ instances: [], tombstones: [] }), wait);
    expect(await status(id)).toBe("deleted");
  });

  it("retains its GPUs and its tombstone until the host confirms the removal", async () => {
    agent.connect();
    agent.obey("ready");
    const first = await replica.deploy({ numGpus: 4 });
    await vi.waitFor(async () => expect(await status(first.id)).toBe("deployed"), wait);
    const [instance] = agent.desired?.instances ?? [];
    agent.disconnect();
    await deleteDeployment(replica.deploymentStore, ada.account, first.id);
    const second = await replica.deploy({ modelName: "ada/next", numGpus: 4 });
    await vi.waitFor(async () => {
      expect((await replica.get(second.id))?.pendingReasons[0]?.why).toContain("0 of 4 other GPUs are free");
    }, wait);
    agent.connect();
    await vi.waitFor(() => expect(agent.tombstonesSeen).toEqual([instance?.instanceId]), wait);
    await vi.waitFor(async () => expect(await status(second.id)).toBe("deployed"), wait);
  });

  it("starts again after it failed, unless another deployment has its name", async () => {
    agent.connect();
    agent.obey("failed", { failCode: "engine_frozen", failMessage: "the model server is frozen" });
    const first = await replica.deploy();
    await vi.waitFor(async () => expect(await status(first.id)).toBe("failed"), wait);
    const start = (id: typeof first.id) =>
      startDeployment(replica.deploymentStore, ada.account, id, {
        funds: async () => null,
        firstMinutes: async () => 0n,
        gpuDefaults: { perType: 8 },
      });

    agent.obey("ready");
    await start(first.id);
    await vi.waitFor(async () => expect(await status(first.id)).toBe("deployed"), wait);
    expect((await replica.get(first.id))?.failReason).toBe("");

    agent.obey("failed", { failCode: "engine_frozen", failMessage: "the model server is frozen" });
    await vi.waitFor(async () => expect(await status(first.id)).toBe("failed"), wait);
    agent.obey("ready");
    const second = await replica.deploy();
    await vi.waitFor(async () => expect(await status(second.id)).toBe("deployed"), wait);
    await expect(start(first.id)).rejects.toThrow(/now has this name/);
  });

  it("fails with the instance's code and message, and frees its GPUs", async () => {
    agent.connect();
    agent.obey("failed", { failCode: "hub_repo_not_found", failMessage: "ada/weights does not exist; check hf.repo" });
    const { id } = await replica.deploy();
    await vi.waitFor(async () => expect(await status(id)).toBe("failed"), wait);
    expect((await replica.get(id))?.failReason).toBe("hub_repo_not_found: ada/weights does not exist; check hf.repo");
    await vi.waitFor(
      async () => expect(await replica.db.selectFrom("gpuClaim").selectAll().execute()).toEqual([]),
      wait,
    );
  });

  it("stops and starts again", async () => {
    agent.connect();
    agent.obey("ready");
    const { id } = await replica.deploy();
    await vi.waitFor(async () => expect(await status(id)).toBe("deployed"), wait);
    const before = agent.desired?.instances[0]?.instanceId;
    await stopDeployment(replica.deploymentStore, ada.account, id);
    await vi.waitFor(async () => expect(await status(id)).toBe("stopped"), wait);
    await vi.waitFor(() => expect(ready(id)).toEqual([]), wait);
    await startDeployment(replica.deploymentStore, ada.account, id, { ...freeTime, gpuDefaults });
    await vi.waitFor(async () => expect(await status(id)).toBe("deployed"), wait);
    expect(agent.desired?.instances[0]?.instanceId).not.toBe(before);
  });

  it("scales up and down, and never removes the serving copy", async () => {
    agent.connect();
    agent.obey("ready");
    const { id } = await replica.deploy({ maxInstances: 3 });
    await vi.waitFor(() => expect(ready(id)).toHaveLength(1), wait);
    const [first] = ready(id);
    await updateDeployment(replica.deploymentStore, ada.account, id, { minInstances: 3, maxInstances: 3 }, gpuDefaults);
    await vi.waitFor(() => expect(ready(id)).toHaveLength(3), wait);
    await updateDeployment(replica.deploymentStore, ada.account, id, { minInstances: 1, maxInstances: 3 }, gpuDefaults);
    await vi.waitFor(() => expect(ready(id)).toEqual([first]), wait);
  });

  it("reserves its name in the account until it is deleted", async () => {
    const { id } = await replica.deploy();
    await expect(replica.deploy()).rejects.toMatchObject({ code: "name_taken" });
    await expect(dryRun()).rejects.toMatchObject({ code: "name_taken" });
    await deleteDeployment(replica.deploymentStore, ada.account, id);
    expect((await replica.deploy()).status).toBe("initializing");
  });
});

it("a dry run refuses what a deployment would, and never writes anything", async () => {
  const before = await replica.db.selectFrom("deployment").select("deployId").execute();
  expect(await dryRun({ maxInstances: 2 })).toMatchObject({ modelName: "ada/llm", engine: "stoker" });
  await expect(dryRun({ maxInstances: gpuDefaults.perType + 1 })).rejects.toBeInstanceOf(GpuLimitReached);
  expect(await replica.db.selectFrom("deployment").select("deployId").execute()).toEqual(before);
  expect(await replica.db.selectFrom("deploymentSpec").selectAll().execute()).toEqual([]);
});

describe("several controllers", () => {
  it("place one deployment once", async () => {
    const others = await Promise.all([startReplica(url, { owner: "b" }), startReplica(url, { owner: "c" })]);
    try {
      agent.connect();
      agent.obey("ready");
      const made = await Promise.all([1, 2, 3].map((n) => replica.deploy({ modelName: `ada/m${n}` })));
      await vi.waitFor(async () => {
        for (const { id } of made) expect(await status(id)).toBe("deployed");
      }, wait);
      await Promise.all([replica, ...others].map((one) => one.controller.pass()));
      expect(await replica.db.selectFrom("instance").selectAll().execute()).toHaveLength(3);
      for (const one of others)
        for (const { id } of made) await vi.waitFor(() => expect(one.routing.ready(id)).toHaveLength(1), wait);
    } finally {
      for (const other of others) await other.stop();
    }
  });

  it("never give one GPU to two instances, with concurrent deployments and deletions", async () => {
    const other = await startReplica(url, { owner: "b" });
    const second = await startFakeAgent({ address: other.address, token: replica.joinToken, hostId: "host-2" });
    try {
      for (const one of [agent, second]) {
        one.obey("ready");
        one.connect();
      }
      const live: DeploymentId[] = [];
      const doubles = async () => {
        const claims = await replica.db.selectFrom("gpuShare").select(["hostId", "gpuUuid", "instanceId"]).execute();
        const keys = claims.map((claim) => `${claim.hostId}/${claim.gpuUuid}`);
        expect(new Set(keys).size).toBe(keys.length);
        return claims.length;
      };
      let random = 12_345;
      const next = (below: number) => {
        random = (random * 1_103_515_245 + 12_345) % 2 ** 31;
        return Math.floor((random / 2 ** 31) * below);
      };
      for (let round = 0; round < longer(8, 40); round++) {
        if (live.length > 0 && next(3) === 0) {
          const [gone] = live.splice(next(live.length), 1);
          await deleteDeployment(replica.deploymentStore, ada.account, gone as DeploymentId);
        } else {
          live.push((await replica.deploy({ modelName: `ada/r${round}`, numGpus: 1 + next(3) })).id);
        }
        await Promise.all([replica.controller.pass(), other.controller.pass()]);
        expect(await doubles()).toBeLessThanOrEqual(8);
      }
      for (const id of live) await deleteDeployment(replica.deploymentStore, ada.account, id);
      await vi.waitFor(async () => expect(await doubles()).toBe(0), wait);
    } finally {
      await second.close();
      await other.stop();
    }
    // Forty rounds of two controllers, as in the nightly run: ten seconds on a quiet machine.
  }, 240_000);
});
