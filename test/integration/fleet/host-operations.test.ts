// Hosts that an operator cordons or drains, over real sessions and PostgreSQL.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { type Replica, startReplica } from "./replica.ts";

const wait = { timeout: 20_000, interval: 25 };
const act = { by: "u:operator", ip: "127.0.0.1", note: "new fans" };
let postgres: TestDatabases;
let replica: Replica;
let agents: FakeAgent[];

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  replica = await startReplica(await postgres.migratedDatabase());
  agents = [];
});
afterEach(async () => {
  for (const agent of agents) await agent.close();
  await replica.stop();
});

async function host(hostId: string): Promise<FakeAgent> {
  const agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId });
  agents.push(agent);
  agent.connect();
  await vi.waitFor(async () => expect(await view(hostId)).toMatchObject({ schedulable: true }), wait);
  return agent;
}
const view = async (id: string) => (await replica.snapshot()).find((one) => one.id === id);
const hostsOf = async (id: DeploymentId) =>
  (await replica.deploymentStore.instances(id)).map(({ hostId }) => hostId as string);

async function serving(agent: FakeAgent): Promise<DeploymentId> {
  const { id } = await replica.deploy();
  await vi.waitFor(() => expect(agent.desired?.instances).toHaveLength(1), wait);
  agent.obey("ready");
  await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
  return id;
}

describe("a cordoned host", () => {
  it("retains its instances and gets no new ones until it is uncordoned; each action is audited", async () => {
    const one = await host("host-1");
    const id = await serving(one);
    await replica.hostOperations.cordon("host-1", act);
    expect(await view("host-1")).toMatchObject({ schedulable: false, condition: expect.stringContaining("new fans") });
    const next = await replica.deploy({ modelName: "ada/next" });
    await vi.waitFor(async () => {
      expect((await replica.get(next.id))?.pendingReasons[0]?.why).toMatch(/^cordoned: .*new fans/);
    }, wait);
    expect(replica.routing.ready(id)).toHaveLength(1);

    expect(await replica.hostOperations.end("host-1", act)).toBe(true);
    await vi.waitFor(() => expect(one.desired?.instances).toHaveLength(2), wait);
    expect(await replica.hostOperations.end("host-1", act)).toBe(false);
    const rows = await replica.db.selectFrom("audit").select(["action", "subject"]).execute();
    expect(rows).toEqual(
      expect.arrayContaining([
        { action: "node.cordon", subject: "host-1" },
        { action: "node.uncordon", subject: "host-1" },
      ]),
    );
  });
});

describe("a drained host", () => {
  it("serves until its instance serves elsewhere, and counts the rest", async () => {
    const one = await host("host-1");
    const id = await serving(one);
    const two = await host("host-2");
    await replica.hostOperations.drain("host-1", 600_000, act);
    expect(await replica.hostOperations.progress("host-1")).toEqual({
      host: "host-1",
      total: 1,
      left: 1,
      fixed: 0,
      inFlight: 0,
    });
    await vi.waitFor(() => expect(two.desired?.instances).toHaveLength(1), wait);
    // The host hears by when it is to be empty: requests may run until then.
    await vi.waitFor(() => expect(Number(one.desired?.emptiedByMs)).toBeGreaterThan(Date.now() + 500_000), wait);
    // Not before the new one serves.
    expect(one.desired?.tombstones).toEqual([]);
    expect(replica.routing.ready(id).map(({ hostId }) => hostId)).toEqual(["host-1"]);
    two.obey("ready");
    await vi.waitFor(() => expect(one.tombstonesSeen).toHaveLength(1), wait);
    expect(one.desired?.moved).toEqual(one.desired?.tombstones);
    one.obey("ready");
    await vi.waitFor(async () => {
      expect(await replica.hostOperations.progress("host-1")).toEqual({
        host: "host-1",
        total: 1,
        left: 0,
        fixed: 0,
        inFlight: 0,
      });
    }, wait);
    expect(await hostsOf(id)).toEqual(["host-2"]);
  });

  it("cannot be cordoned as well until the drain is cancelled", async () => {
    await host("host-1");
    await replica.hostOperations.cordon("host-1", act);
    await replica.hostOperations.drain("host-1", 600_000, act);
    const before = await view("host-1");
    await expect(replica.hostOperations.cordon("host-1", { ...act, note: "" })).rejects.toMatchObject({
      code: "node_draining",
    });
    expect(await view("host-1")).toMatchObject({ operation: before?.operation });
    expect(before?.operation).toMatchObject({ kind: "drain", note: "new fans" });
    await replica.hostOperations.end("host-1", act);
    await replica.hostOperations.cordon("host-1", act);
    expect(await view("host-1")).toMatchObject({ operation: { kind: "cordon" } });
  });

  it("removes at the deadline what could not be placed elsewhere", async () => {
    const one = await host("host-1");
    const id = await serving(one);
    await replica.hostOperations.drain("host-1", 0, act);
    await vi.waitFor(() => expect(one.tombstonesSeen).toHaveLength(1), wait);
    expect(Number(one.desired?.emptiedByMs)).toBeLessThanOrEqual(Date.now());
    expect((await replica.get(id))?.status).not.toBe("failed");
  });
});

it("an instance on a faulty GPU is replaced on another before its removal", async () => {
  const one = await host("host-1");
  const id = await serving(one);
  const first = one.desired?.instances[0];
  const gpuUuid = first?.gpuUuids[0];
  // What comes in its place is not there yet, however soon it is asked for.
  one.obeyEach((want) => ({ phase: want.instanceId === first?.instanceId ? "ready" : "starting" }));
  const all = await replica.db
    .selectFrom("gpuClaim")
    .select("gpuUuid")
    .where("hostId", "=", "host-1" as HostId)
    .execute();
  expect(all).toEqual([{ gpuUuid: gpuUuid }]);
  await replica.db
    .insertInto("gpuCordon")
    .values({
      hostId: "host-1" as HostId,
      gpuUuid: gpuUuid as string,
      faultId: "xid:79",
      reason: "Xid 79",
      liftedAt: null,
    })
    .execute();
  // The host's other GPUs are as good as another host's.
  await vi.waitFor(() => expect(one.desired?.instances).toHaveLength(2), wait);
  expect(one.desired?.tombstones).toEqual([]);
  expect(replica.routing.ready(id).map((route) => route.instanceId)).toEqual([first?.instanceId]);
  one.obey("ready");
  await vi.waitFor(() => expect(one.tombstonesSeen).toHaveLength(1), wait);
  const [left] = await replica.deploymentStore.instances(id);
  expect(left?.gpuUuids).not.toContain(gpuUuid);
  await vi.waitFor(() => expect(replica.routing.ready(id).map((route) => route.instanceId)).toEqual([left?.id]), wait);
});

it("a host is deleted once it is offline and empty, and its certificate is rejected", async () => {
  await replica.stop();
  replica = await startReplica(await postgres.migratedDatabase(), { limits: { leaseMs: 4_000, lostMs: 8_000 } });
  const one = await host("host-1");
  await expect(replica.hostOperations.remove("host-1", act)).rejects.toMatchObject({ code: "node_connected" });
  await one.close();
  agents = [];
  await vi.waitFor(async () => expect((await view("host-1"))?.state).not.toBe("live"), { ...wait, timeout: 40_000 });
  // What once ended there is no reason to keep it.
  await replica.db
    .insertInto("endedInstance")
    .values({ instanceId: "ended" as InstanceId, hostId: "host-1" as HostId })
    .execute();
  expect(await replica.hostOperations.remove("host-1", act)).toBe("host-1");
  expect(await view("host-1")).toBeUndefined();
  await expect(replica.hostOperations.cordon("host-1", act)).rejects.toMatchObject({ code: "node_not_found" });
  const identity = await replica.db.selectFrom("nodeIdentity").select("revokedAt").executeTakeFirst();
  expect(identity?.revokedAt).not.toBeNull();
});

it("makes a host end only unknown instances; it is audited", async () => {
  const one = await host("host-1");
  const id = await serving(one);
  const known = one.desired?.instances[0]?.instanceId ?? "";
  one.stopObeying();
  const running = (instanceId: string, gpu: number) => ({
    instanceId,
    deployId: instanceId === known ? id : "of-another-life",
    phase: "ready",
    generation: 1,
    gpuUuids: [`host-1-gpu-${gpu}`],
  });
  const all = [running(known, 0), running("stranger-1", 1), running("stranger-2", 2)];
  one.report(all);
  await vi.waitFor(async () => expect((await view("host-1"))?.condition).toContain("stranger-2"), wait);
  const end = (only?: string[]) => replica.hostOperations.endUnknown("host-1", only, act);
  expect((await end([known, "nobody"])).instances).toEqual([]);
  expect((await end(["stranger-1"])).instances).toEqual(["stranger-1"]);
  await vi.waitFor(() => expect(one.desired?.tombstones).toEqual(["stranger-1"]), wait);
  one.report([running(known, 0), running("stranger-2", 2)], ["stranger-1"]);
  await vi.waitFor(() => expect(one.desired?.tombstones).toEqual([]), wait);
  expect((await end()).instances).toEqual(["stranger-2"]);
  one.report([running(known, 0)], ["stranger-2"]);
  await vi.waitFor(async () => expect((await view("host-1"))?.condition).toBe(""), wait);
  expect(one.desired?.instances.map((want) => want.instanceId)).toEqual([known]);
  const rows = await replica.db
    .selectFrom("audit")
    .select("after")
    .where("action", "=", "node.end_unknown")
    .orderBy("auditId")
    .execute();
  expect(rows.map((row) => row.after)).toEqual([{ instances: ["stranger-1"] }, { instances: ["stranger-2"] }]);
  await expect(replica.hostOperations.endUnknown("host-9", undefined, act)).rejects.toMatchObject({
    code: "node_not_found",
  });
});
