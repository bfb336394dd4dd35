// P20: a control plane restored from a backup finds hosts that run what was placed after it was made. Nothing of it ends; an
// operator's decision makes what the backup contains known again.
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { type Replica, startReplica } from "./replica.ts";

const wait = { timeout: 30_000, interval: 50 };
const act = { by: "u:operator", ip: "10.0.0.1", note: "a test" };
let postgres: TestDatabases;
let replica: Replica | undefined;
let agent: FakeAgent | undefined;

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
afterEach(async () => {
  await agent?.close();
  await replica?.stop();
  [agent, replica] = [undefined, undefined];
});

const instances = (at: Replica) =>
  at.db
    .selectFrom("instance")
    .select(["instanceId", "deployId", "gpuUuids", "generation", "tombstonedAt", "grantedBytes"])
    .orderBy("instanceId")
    .execute();

it("restored from before a placement ends nothing, and knows it again once the host is adopted, or reports why not", async () => {
  const newest = await postgres.migratedDatabase();
  replica = await startReplica(newest);
  const { port, joinToken, address } = replica;
  const kept = await replica.deploy({ modelName: "ada/kept" });
  const changed = await replica.deploy({ modelName: "ada/changed" });
  await replica.stop();
  replica = undefined;
  const backup = await postgres.createDatabase(newest);

  // Placed, and one more made, after the backup.
  replica = await startReplica(newest, { port });
  const later = await replica.deploy({ modelName: "ada/later" });
  agent = await startFakeAgent({ address, token: joinToken, hostId: "host-1" });
  agent.obeyEach(({ gpuUuids }) => ({ phase: "ready", gpuUuids }));
  agent.connect();
  for (const { id } of [kept, changed, later])
    await vi.waitFor(async () => expect((await replica?.get(id))?.status).toBe("deployed"), wait);
  const placed = await instances(replica);
  const of = (deployId: string) => placed.find((row) => row.deployId === deployId);
  expect(placed).toHaveLength(3);
  await replica.stop();
  replica = undefined;

  const older = await startReplica(backup, { port });
  replica = older;
  // With its revision, so that a verdict in progress does not write the earlier generation back.
  await older.db
    .updateTable("deployment")
    .set((eb) => ({ generation: 7, revision: eb("revision", "+", 1n) }))
    .where("deployId", "=", changed.id)
    .execute();
  agent.connect();
  const host = async () => (await older.fleetStore.hosts())[0];
  await vi.waitFor(async () => {
    const condition = (await host())?.condition;
    expect(condition).toContain("control_plane_behind");
    for (const row of placed) expect(condition).toContain(row.instanceId);
  }, wait);
  expect(agent.welcome?.behind).toBe(true);
  expect(await instances(older)).toEqual([]);

  const adopted = await older.enrolment.adopt("host-1", act);
  expect(adopted.instances).toEqual([of(kept.id)?.instanceId]);
  expect([...adopted.left].sort((a, b) => a.why.localeCompare(b.why))).toEqual([
    {
      instanceId: of(changed.id)?.instanceId,
      deployId: changed.id,
      why: "it runs generation 1 of its deployment, which is at 7 here",
    },
    { instanceId: of(later.id)?.instanceId, deployId: later.id, why: "its deployment does not exist in this database" },
  ]);
  expect(await instances(older)).toEqual([of(kept.id)]);
  const claims = await older.db.selectFrom("gpuClaim").select(["gpuUuid", "accountId"]).execute();
  expect(claims).toEqual([{ gpuUuid: of(kept.id)?.gpuUuids[0], accountId: "u:ada" }]);
  expect((await host())?.condition).toMatch(/unknown_instances/);
  expect((await host())?.condition).not.toContain(of(kept.id)?.instanceId ?? "?");

  await vi.waitFor(() => expect(agent?.ended).toBeDefined(), wait);
  const before = agent.desiredCount;
  agent.connect();
  await vi.waitFor(() => expect(agent?.desiredCount).toBeGreaterThan(before), wait);
  await vi.waitFor(async () => expect((await older.get(kept.id))?.status).toBe("deployed"), wait);
  const now = agent.desired?.instances.find((one) => one.deployId === kept.id);
  expect(now).toMatchObject({ instanceId: of(kept.id)?.instanceId, gpuUuids: of(kept.id)?.gpuUuids });
  expect((await instances(older)).filter((row) => row.deployId === kept.id)).toEqual([of(kept.id)]);
  expect(agent.tombstonesSeen).toEqual([]);
}, 120_000);

it("adopts all instances that use one GPU in turn, and no other one beside them", async () => {
  const newest = await postgres.migratedDatabase();
  replica = await startReplica(newest);
  const { port, joinToken, address } = replica;
  const sleepers = [
    await replica.deploy({ modelName: "ada/one", sleepAfterSeconds: 60 }),
    await replica.deploy({ modelName: "ada/other", sleepAfterSeconds: 60 }),
  ];
  const restless = await replica.deploy({ modelName: "ada/restless", sleepAfterSeconds: 60 });
  await replica.stop();
  replica = undefined;
  const backup = await postgres.createDatabase(newest);

  replica = await startReplica(newest, { port });
  agent = await startFakeAgent({ address, token: joinToken, hostId: "host-2", gpus: 1, sleeps: true });
  agent.obeyEach(({ gpuUuids }) => ({ phase: "asleep", gpuUuids }));
  agent.connect();
  for (const { id } of [...sleepers, restless])
    await vi.waitFor(async () => expect((await replica?.get(id))?.status).toBe("deployed"), wait);
  const placed = await instances(replica);
  const claimed = () => replica?.db.selectFrom("gpuClaim").selectAll().execute();
  const before = await claimed();
  expect(before).toHaveLength(1);
  await replica.stop();

  replica = await startReplica(backup, { port });
  // Its instance may no longer be put to sleep, so it needs a GPU of its own.
  await replica.db.updateTable("deployment").set({ sleepAfter: 0 }).where("deployId", "=", restless.id).execute();
  agent.connect();
  const host = async () => (await replica?.fleetStore.hosts())?.[0];
  await vi.waitFor(async () => {
    for (const row of placed) expect((await host())?.condition).toContain(row.instanceId);
  }, wait);
  const adopted = await replica.enrolment.adopt("host-2", act);
  const of = (deployId: string) => placed.find((row) => row.deployId === deployId)?.instanceId ?? "none";
  expect(adopted.left.map(({ instanceId }) => instanceId)).toEqual([of(restless.id)]);
  expect(adopted.left[0]?.why).toMatch(/is used by another instance here/);
  expect([...adopted.instances].sort()).toEqual(sleepers.map(({ id }) => of(id)).sort());
  expect(await claimed()).toEqual([{ ...before?.[0], claimedBytes: ((before?.[0]?.claimedBytes ?? 0n) / 3n) * 2n }]);
  // One of the GPU's share of the host and one beside it, as they were placed.
  const now = (await instances(replica)).map((row) => row.grantedBytes);
  expect(new Set(now)).toEqual(new Set(placed.map((row) => row.grantedBytes)));
}, 120_000);
