import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { deleteDeployment } from "../../../control-plane/deployments/change.ts";
import { instanceLogs } from "../../../control-plane/fleet/instance-logs.ts";
import type { HostId, InstanceId } from "../../../proto/ids.ts";
import { writeUsageBatch } from "../../../proto/usage-record.ts";
import { type FakeAgent, type FakeAgentOptions, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { startTcpLink } from "../../fakes/tcp-link.ts";
import { spooled } from "../../fakes/usage-record.ts";
import { ada, type Replica, scaledLimits, startReplica } from "./replica.ts";

const wait = { timeout: 20_000, interval: 25 };
let postgres: TestDatabases;
let url: string;
let replicas: Replica[] = [];
let agents: FakeAgent[] = [];

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  url = await postgres.migratedDatabase();
});
afterEach(async () => {
  for (const agent of agents) await agent.close();
  for (const replica of replicas) await replica.stop();
  agents = [];
  replicas = [];
});

async function start(options: Parameters<typeof startReplica>[1] = {}): Promise<Replica> {
  const replica = await startReplica(url, options);
  replicas.push(replica);
  return replica;
}
async function stop(replica: Replica): Promise<void> {
  replicas = replicas.filter((one) => one !== replica);
  await replica.stop();
}
async function join(replica: Replica, over: Partial<FakeAgentOptions> = {}): Promise<FakeAgent> {
  const agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "host-1", ...over });
  agents.push(agent);
  agent.obey("ready");
  agent.connect();
  return agent;
}
async function deployed(replica: Replica, name = "ada/llm") {
  const { id } = await replica.deploy({ modelName: name });
  await vi.waitFor(async () => expect((await replica.get(id))?.status).toBe("deployed"), wait);
  await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
  return id;
}
const instances = (replica: Replica) =>
  replica.db.selectFrom("instance").select(["instanceId", "hostId", "tombstonedAt"]).orderBy("createdAt").execute();

describe("an agent's session", () => {
  it("is refused without the join token", async () => {
    const replica = await start();
    const agent = await join(replica, { token: replica.joinToken.replace(/\.[^.]+\./, ".wrong.") });
    await vi.waitFor(() => expect(agent.ended).toContain("unknown join token"), wait);
    expect(agent.welcome).toBeUndefined();
  });

  it("gets the same set again when it reconnects, under a new epoch and key", async () => {
    const replica = await start();
    const agent = await join(replica);
    const id = await deployed(replica);
    const { welcome, desired } = agent;
    agent.disconnect();
    agent.connect();
    await vi.waitFor(() => {
      expect(BigInt(agent.welcome?.nodeEpoch ?? 0)).toBeGreaterThan(BigInt(welcome?.nodeEpoch ?? 0));
      expect(agent.desired?.nodeEpoch).toBe(agent.welcome?.nodeEpoch);
    }, wait);
    expect(agent.desired?.instances).toEqual(desired?.instances);
    await vi.waitFor(() => expect(replica.routing.ready(id)[0]?.ticketKey).toEqual(agent.welcome?.ticketKey), wait);
  });

  it("removes nothing if it reports nothing", async () => {
    const replica = await start();
    const agent = await join(replica);
    const id = await deployed(replica);
    agent.disconnect();
    const silent = await join(replica, { hostId: "host-1" });
    await vi.waitFor(() => expect(silent.desired?.instances).toHaveLength(1), wait);
    const [before] = await instances(replica);
    silent.stopObeying();
    for (let n = 0; n < 3; n++) silent.report([], [before?.instanceId ?? ""], [`report-${n}`]);
    await vi.waitFor(async () => {
      expect((await replica.fleetStore.openLeases())[0]?.leaseIds).toEqual(["report-2"]);
    }, wait);
    await replica.controller.pass();
    expect(await instances(replica)).toEqual([before]);
    expect(replica.routing.ready(id)).toHaveLength(1);
  });

  it("is ended when a newer one of the same host begins, also at another replica, and then writes nothing", async () => {
    const first = await start();
    const second = await start({ owner: "b" });
    const old = await join(first);
    const id = await deployed(first);
    const [instance] = first.routing.ready(id);
    const cloned = await join(second, { highestEpoch: BigInt(old.welcome?.nodeEpoch ?? 0) });
    await vi.waitFor(() => expect(old.ended).toBeDefined(), wait);
    expect(first.alerts).toContain("second_session");
    await vi.waitFor(() => expect(cloned.desired?.instances).toHaveLength(1), wait);
    const stale = { instanceId: instance?.instanceId ?? "", phase: "failed", generation: 1 } as const;
    const epoch = BigInt(old.welcome?.nodeEpoch ?? 0);
    const written = await first.deploymentStore.observe(
      "host-1" as HostId,
      epoch,
      [
        {
          ...stale,
          instanceId: stale.instanceId as InstanceId,
          deployId: id,
          gpuUuids: [],
          failCode: "x",
          failMessage: "",
          bytesDone: 0n,
          bytesTotal: 0n,
          restarts: 0,
          contextLength: 0,
          identity: "",
          sshPort: 0,
          sshAddress: "",
          adapters: [],
          formats: [],
          serverBatchSize: null,
        },
      ],
      [],
      [],
    );
    expect(written.isFenced).toBe(true);
    expect((await first.get(id))?.status).toBe("deployed");
  });

  it("that returns before the end of the last one was noticed is no clone: the same process, or another one after a silence", async () => {
    const replica = await start({ limits: { leaseMs: 500, lostMs: 30_000 }, renewEveryMs: 200 });
    const link = await startTcpLink(replica.port);
    try {
      const agent = await join(replica, { address: `127.0.0.1:${link.port}` });
      await vi.waitFor(() => expect(agent.welcome).toBeDefined(), wait);
      const first = agent.welcome?.nodeEpoch;
      agent.connect();
      await vi.waitFor(() => expect(agent.welcome && agent.welcome.nodeEpoch !== first).toBe(true), wait);
      link.cut("silent");
      await vi.waitFor(async () => expect((await replica.snapshot())[0]?.state).toBe("unreachable"), wait);
      const restarted = await join(replica);
      await vi.waitFor(() => expect(restarted.desired).toBeDefined(), wait);
      await vi.waitFor(() => expect(replica.sessions.count).toBe(1), wait);
      expect(replica.alerts).not.toContain("second_session");
    } finally {
      await link.close();
    }
  });

  it("is told again to remove ended instances that still run, until they are removed", async () => {
    const replica = await start();
    const agent = await join(replica);
    const id = await deployed(replica);
    const [row] = await instances(replica);
    const ghost = { instanceId: row?.instanceId ?? "", deployId: id, phase: "ready", gpuUuids: ["host-1-gpu-2"] };
    await deleteDeployment(replica.deploymentStore, ada.account, id);
    await vi.waitFor(async () => expect(await instances(replica)).toEqual([]), wait);
    await vi.waitFor(() => expect(agent.desired?.tombstones).toEqual([]), wait);
    agent.stopObeying();
    agent.report([ghost]);
    await vi.waitFor(() => expect(agent.desired?.tombstones).toEqual([ghost.instanceId]), wait);
    const [host] = await replica.fleetStore.hosts();
    expect(host?.claims.map((claim) => claim.gpuUuid)).toEqual(["host-1-gpu-2"]);
    agent.report([], [ghost.instanceId]);
    await vi.waitFor(() => expect(agent.desired?.tombstones).toEqual([]), wait);
    await vi.waitFor(async () => expect((await replica.fleetStore.hosts())[0]?.claims).toEqual([]), wait);
  });

  it("shows unknown instances in the host's condition, and places nothing on their GPUs", async () => {
    const replica = await start();
    const agent = await join(replica, { gpus: 1 });
    await vi.waitFor(() => expect(agent.provenTimes).toBeGreaterThan(0), wait);
    agent.stopObeying();
    const stranger = {
      instanceId: "stranger",
      deployId: "of-another-life",
      phase: "ready",
      gpuUuids: ["host-1-gpu-0"],
    };
    agent.report([stranger]);
    const condition = async () => (await replica.fleetStore.hosts())[0]?.condition;
    await vi.waitFor(async () => expect(await condition()).toMatch(/^unknown_instances: stranger of of-another/), wait);
    const { id } = await replica.deploy();
    await vi.waitFor(async () => {
      expect((await replica.get(id))?.pendingReasons[0]?.why).toMatch(/^0 of 1 other GPUs are free/);
    }, wait);
    expect(agent.tombstonesSeen).toEqual([]);
    agent.obey("ready");
    await vi.waitFor(async () => expect((await replica.get(id))?.status).toBe("deployed"), wait);
    expect(await condition()).toBe("");
  });

  it("is told to change nothing by an outdated control plane", async () => {
    const replica = await start();
    const agent = await join(replica, { highestEpoch: 1_000_000n });
    await vi.waitFor(() => expect(agent.welcome).toBeDefined(), wait);
    await vi.waitFor(() => expect(replica.alerts).toContain("control_plane_behind"), wait);
    const { id } = await replica.deploy();
    await vi.waitFor(async () => {
      expect((await replica.get(id))?.pendingReasons[0]?.why).toContain("control_plane_behind");
    }, wait);
    expect(agent.desiredCount).toBe(0);
  });

  it("shows an unreachable host as such, and gives it no work", async () => {
    const replica = await start();
    await join(replica, { advertise: "http://127.0.0.1:1" });
    const { id } = await replica.deploy();
    await vi.waitFor(async () => {
      const [reason] = (await replica.get(id))?.pendingReasons ?? [];
      expect(reason?.why).toMatch(/^data_path_unreachable: http:\/\/127\.0\.0\.1:1 /);
    }, wait);
  });

  it("acknowledges only durable usage", async () => {
    const replica = await start();
    const agent = await join(replica);
    await vi.waitFor(() => expect(agent.welcome).toBeDefined(), wait);
    const records = ["a", "lose me", "b"].map((requestId, i) => spooled(i + 1, { requestId }));
    agent.send({ body: "usage", usage: { records: writeUsageBatch(records) } });
    await vi.waitFor(() => expect(agent.acknowledged).toEqual(["1", "3"]), wait);
  });

  it("stores its reported leases for every replica", async () => {
    const replica = await start();
    const agent = await join(replica);
    await vi.waitFor(() => expect(agent.welcome).toBeDefined(), wait);
    agent.stopObeying();
    agent.report([], [], ["lease-1", "lease-2"]);
    await vi.waitFor(async () => {
      const [row] = await replica.fleetStore.openLeases();
      expect(row?.leaseIds).toEqual(["lease-1", "lease-2"]);
      expect(row?.reportAgeMs).toBeLessThan(10_000);
    }, wait);
  });

  it("fetches an instance's log lines over the proven data path", async () => {
    const replica = await start();
    await join(replica);
    await deployed(replica);
    const [row] = await instances(replica);
    const id = row?.instanceId as InstanceId;
    const lines = await instanceLogs(
      { store: replica.fleetStore, dial: replica.dial },
      "host-1" as HostId,
      id,
      { limit: 10 },
      AbortSignal.timeout(5_000),
    );
    expect(lines).toEqual([{ at: "1700000000.000000001", line: `a line of ${id}` }]);
  });
});

describe("a host that falls silent", () => {
  it("gets no new routes after its lease, is replaced after the longer silence, and loses its copy when it returns", async () => {
    // Between the end of its routes and its replacement there is time to look.
    const replica = await start({ limits: { ...scaledLimits, lostMs: 8_000 } });
    const lost = await join(replica, { gpus: 1 });
    const id = await deployed(replica);
    const [before] = await instances(replica);
    const good = await join(replica, { hostId: "host-2" });
    await vi.waitFor(() => expect(good.provenTimes).toBeGreaterThan(0), wait);

    lost.disconnect();
    await vi.waitFor(() => expect(replica.routing.ready(id)).toEqual([]), wait);
    expect(await instances(replica)).toHaveLength(1);
    await vi.waitFor(() => expect(replica.routing.ready(id)[0]?.hostId).toBe("host-2"), { ...wait, timeout: 40_000 });
    await vi.waitFor(async () => {
      const rows = await instances(replica);
      expect(rows.map((row) => [row.hostId, row.tombstonedAt !== null])).toEqual([
        ["host-1", true],
        ["host-2", false],
      ]);
    }, wait);

    lost.connect();
    await vi.waitFor(() => expect(lost.tombstonesSeen).toEqual([before?.instanceId]), wait);
    await vi.waitFor(async () => expect((await instances(replica)).map((row) => row.hostId)).toEqual(["host-2"]), wait);
    expect((await replica.get(id))?.status).toBe("deployed");
  });

  it("is unchanged if it returns before it counts as lost", async () => {
    const replica = await start({ limits: { leaseMs: 500, lostMs: 30_000 } });
    const agent = await join(replica);
    await join(replica, { hostId: "host-2" });
    const id = await deployed(replica);
    const before = await instances(replica);
    for (const one of agents) one.disconnect();
    await vi.waitFor(() => expect(replica.routing.ready(id)).toEqual([]), wait);
    for (const one of agents) one.connect();
    await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
    expect(await instances(replica)).toEqual(before);
    expect(agent.tombstonesSeen).toEqual([]);
  });

  it("is not replaced when most hosts fall silent together", async () => {
    const replica = await start({ limits: scaledLimits });
    for (const hostId of ["host-1", "host-2", "host-3"]) await join(replica, { hostId });
    await deployed(replica);
    const before = await instances(replica);
    for (const agent of agents) if (agent.hostId !== "host-3") agent.disconnect();
    await vi.waitFor(() => expect(replica.alerts).toContain("mass_silence"), wait);
    await replica.controller.pass();
    expect(await instances(replica)).toEqual(before);
  });
});

describe("a restarted control plane", () => {
  it("routes from its first second and moves nothing, however long it was down", async () => {
    const first = await start({ limits: scaledLimits });
    const agent = await join(first);
    const id = await deployed(first);
    const before = await instances(first);
    const set = agent.desired?.instances;
    await stop(first);
    // As if it had been away for an hour.
    const later = await start({ limits: scaledLimits, port: first.port });
    await later.db
      .updateTable("host")
      .set({ seenAt: new Date(Date.now() - 3_600_000) })
      .execute();
    expect(later.routing.ready(id)).toHaveLength(1);
    await later.controller.pass();
    agent.disconnect();
    agent.connect();
    await vi.waitFor(() => expect(agent.desired?.nodeEpoch).toBe(agent.welcome?.nodeEpoch ?? "none"), wait);
    expect(agent.desired).toMatchObject({ instances: set, tombstones: [] });
    expect(await instances(later)).toEqual(before);
    expect(later.routing.ready(id)).toHaveLength(1);
    await deleteDeployment(later.deploymentStore, ada.account, id);
  });
});
