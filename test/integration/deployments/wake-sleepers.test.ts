// Waking of instances that sleep, on a real database: which one, and in which order rows are locked.
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { DeploymentId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, type Replica, startReplica } from "../fleet/replica.ts";

const wait = { timeout: 20_000, interval: 25 };
let postgres: TestDatabases;
let replica: Replica;
let agent: FakeAgent;
let id: DeploymentId;

beforeAll(async () => {
  postgres = await sharedPostgres();
  replica = await startReplica(await postgres.migratedDatabase());
  agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "host-1" });
  agent.connect();
  agent.obey("ready");
  id = (await replica.deploy({ minInstances: 1, maxInstances: 2, sleepAfterSeconds: 60 })).id;
  await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
});
afterAll(async () => {
  await agent?.close();
  await replica?.stop();
  await postgres?.stop();
});

const instance = () => replica.db.selectFrom("instance");
const awaited = async () => {
  const rows = await instance().select(["instanceId", "awaitedAt"]).orderBy("awaitedAt").execute();
  return rows.flatMap(({ instanceId, awaitedAt }) => (awaitedAt ? [instanceId] : []));
};
const phases = async () => (await instance().select("phase").execute()).map(({ phase }) => phase);
const generation = async () =>
  (await replica.db.selectFrom("host").select("generation").executeTakeFirstOrThrow()).generation;

describe("a changed sleep time", () => {
  it("reaches the hosts of its instances", async () => {
    const before = await generation();
    await vi.waitFor(async () => {
      const revision = (await replica.get(id))?.revision ?? 0n;
      const change = { sleepAfterSeconds: 90 };
      expect(await replica.deploymentStore.change(id, ada.account, revision, change, undefined)).toBe(true);
    }, wait);
    expect(await generation()).toBeGreaterThan(before);
    await vi.waitFor(() => expect(agent.desired?.instances[0]?.sleepAfterSeconds).toBe(90), wait);
  });
});

describe("a waiting caller", () => {
  it("locks the deployment before its host and before the order of announcements", async () => {
    agent.obey("asleep");
    await vi.waitFor(async () => expect(await phases()).toEqual(["asleep"]), wait);
    await replica.db.transaction().execute(async (other) => {
      await other.selectFrom("deployment").select("deployId").where("deployId", "=", id).forUpdate().execute();
      const waking = replica.deploymentStore.wake(id, ada.account);
      await vi.waitFor(async () => {
        const blocked = await sql`select from pg_locks where not granted`.execute(replica.db);
        expect(blocked.rows.length).toBeGreaterThan(0);
      }, wait);
      await expect(other.selectFrom("host").select("hostId").forUpdate().noWait().execute()).resolves.toHaveLength(1);
      const order = await sql<{ isFree: boolean }>`select pg_try_advisory_xact_lock(7205001) as is_free`.execute(other);
      expect(order.rows).toEqual([{ isFree: true }]);
      void waking.catch(() => {});
    });
    await vi.waitFor(async () => expect(await awaited()).toHaveLength(1), wait);
  });

  it("wakes one of two instances that sleep, and the other one if five seconds were not enough", async () => {
    await vi.waitFor(async () => {
      const revision = (await replica.get(id))?.revision ?? 0n;
      expect(await replica.deploymentStore.change(id, ada.account, revision, { target: 2 }, undefined)).toBe(true);
    }, wait);
    await vi.waitFor(async () => expect(await phases()).toEqual(["asleep", "asleep"]), wait);
    agent.stopObeying();
    const pass = async (seconds: number) => {
      const back = sql<Date>`awaited_at - make_interval(secs => ${seconds})`;
      await replica.db.updateTable("deployment").set({ awaitedAt: back }).execute();
      await replica.db.updateTable("instance").set({ awaitedAt: back }).execute();
    };
    await replica.db.updateTable("instance").set({ awaitedAt: null }).execute();
    await pass(6);
    await Promise.all(Array.from({ length: 20 }, () => replica.deploymentStore.wake(id, ada.account)));
    const first = await awaited();
    expect(first).toHaveLength(1);
    await vi.waitFor(() => {
      const sent = agent.desired?.instances.filter(({ awaitedAtMs }) => Number(awaitedAtMs) > 0);
      expect(sent?.map(({ instanceId }) => instanceId)).toEqual(first);
    }, wait);
    await pass(6);
    await replica.deploymentStore.wake(id, ada.account);
    expect(await awaited()).toEqual([...first, expect.any(String)]);
  });
});
