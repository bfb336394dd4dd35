// Sleep and waking on a real database with two replicas: many callers, one instance, one guarded write.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startDeployment, stopDeployment, updateDeployment } from "../../../control-plane/deployments/change.ts";
import { createWaker } from "../../../control-plane/deployments/wake.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, freeTime, gpuDefaults, type Replica, startReplica } from "../fleet/replica.ts";

const wait = { timeout: 20_000, interval: 25 };
let postgres: TestDatabases;
let replica: Replica;
let other: Replica;
let agent: FakeAgent;
let id: DeploymentId;

beforeAll(async () => {
  postgres = await sharedPostgres();
  const url = await postgres.migratedDatabase();
  replica = await startReplica(url);
  other = await startReplica(url, { owner: "b" });
  agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "host-1" });
  agent.connect();
  agent.obey("ready");
  id = (await replica.deploy({ minInstances: 0, maxInstances: 2, inactiveShutdown: 60 })).id;
  await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
});
afterAll(async () => {
  await agent?.close();
  await replica?.stop();
  await other?.stop();
  await postgres?.stop();
});

const record = () => replica.get(id);
const asker = (one: Replica, money: Partial<typeof freeTime> | object = {}) =>
  createWaker({ store: one.deploymentStore, ...freeTime, ...money });

async function sleep(): Promise<void> {
  // A controller may move it between the two.
  await vi.waitFor(async () => {
    const now = await record();
    expect(await replica.deploymentStore.change(id, ada.account, now?.revision ?? 0n, { target: 0 })).toBe(true);
  }, wait);
  await vi.waitFor(async () => expect(await replica.db.selectFrom("instance").selectAll().execute()).toEqual([]), wait);
  expect(await record()).toMatchObject({ status: "deployed", target: 0, running: 0 });
}

describe("a sleeping deployment", () => {
  it("is woken once by fifty callers at two replicas, who see its progress", async () => {
    await sleep();
    agent.obey("loading");
    const before = (await record())?.revision ?? 0n;
    const asks = Array.from({ length: 50 }, (_, n) => asker(n % 2 ? replica : other)(id, ada.account));
    for (const state of await Promise.all(asks)) expect(state.kind).toBe("coming");
    await vi.waitFor(async () => {
      expect(await asker(other)(id, ada.account)).toMatchObject({ kind: "coming", phase: "deploying" });
    }, wait);
    expect(await replica.db.selectFrom("instance").selectAll().execute()).toHaveLength(1);
    // One move to awake, one placement: nobody woke it twice.
    expect((await record())?.revision).toBe(before + 2n);
    agent.obey("ready");
    for (const one of [replica, other]) await vi.waitFor(() => expect(one.routing.ready(id)).toHaveLength(1), wait);
    expect((await record())?.awaitedAtMs).toBeGreaterThan(0);
  });

  it("records its last use, without changing its revision", async () => {
    await vi.waitFor(async () => {
      const before = await record();
      // A row that a controller works on is left out for once.
      await Promise.all([replica, other].map((one) => one.deploymentStore.noteUse([id])));
      const after = await record();
      expect(after?.usedAtMs).toBeGreaterThan(before?.usedAtMs ?? 0);
      expect(after).toMatchObject({ revision: before?.revision, updatedAtMs: before?.updatedAtMs });
    }, wait);
  });

  it("is not woken by other accounts, without funds, or when stopped", async () => {
    await sleep();
    expect(await asker(replica)(id, "u:eve" as AccountId)).toEqual({ kind: "ended", phase: "deleted" });
    const poor = { funds: async () => 5n, firstMinutes: async () => 6n };
    expect(await asker(replica, poor)(id, ada.account)).toEqual({ kind: "unpaid" });
    expect(await record()).toMatchObject({ target: 0 });
    await stopDeployment(replica.deploymentStore, ada.account, id);
    await vi.waitFor(async () => expect((await record())?.status).toBe("stopped"), wait);
    expect(await asker(replica)(id, ada.account)).toEqual({ kind: "ended", phase: "stopped" });
    await startDeployment(replica.deploymentStore, ada.account, id, { ...freeTime, gpuDefaults });
    await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
  });

  it("accepts an update while sleeping, and returns to the previous version if the new one fails", async () => {
    await sleep();
    agent.obeyEach(({ extraArgs }) =>
      extraArgs.length > 0 ? { phase: "failed", failCode: "start_failed", failMessage: "no" } : { phase: "ready" },
    );
    const extraArgs = ["--max-model-len=1024"];
    await updateDeployment(replica.deploymentStore, ada.account, id, { extraArgs }, gpuDefaults);
    await vi.waitFor(async () => expect((await record())?.status).toBe("deployed"), wait);
    expect(await record()).toMatchObject({ servingSpec: 1, spec: 2, extraArgs });
    await asker(replica)(id, ada.account);
    await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
    await vi.waitFor(async () => {
      expect(await record()).toMatchObject({ status: "deployed", extraArgs: [], updateError: "start_failed: no" });
    }, wait);
  });
});
