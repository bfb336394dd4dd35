// A faulty GPU is cordoned automatically and returns only by an operator; figures of hosts are stored with their age.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { place } from "../../../control-plane/deployments/placement-preview.ts";
import type { Gpu } from "../../../control-plane/fleet/host.ts";
import type { HostLive } from "../../../control-plane/fleet/live.ts";
import type { HostId } from "../../../proto/ids.ts";
import { gpu, inventory } from "../../fakes/fleet-records.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { type Replica, startReplica } from "./replica.ts";

let postgres: TestDatabases;
let replica: Replica;
const act = { by: "u:ada", ip: "203.0.113.7", note: "reseated" };
const fault = { isHealthy: false, unhealthyReason: "Xid 79: it has fallen off the bus", faultId: "xid:79:b1:7" };

beforeAll(async () => {
  postgres = await sharedPostgres();
  replica = await startReplica(await postgres.migratedDatabase());
});
afterAll(async () => {
  await replica?.stop();
  await postgres?.stop();
});

async function comes(id: string, ...gpus: Gpu[]) {
  const hostId = id as HostId;
  const ticketKey = Buffer.alloc(32);
  const host = {
    hostId,
    hostname: id,
    advertise: "http://127.0.0.1:9",
    agentVersion: "1",
    inventory: inventory({ gpus }),
  };
  const known = await replica.db
    .selectFrom("host")
    .select("nodeEpoch")
    .where("hostId", "=", id as HostId)
    .executeTakeFirst();
  const runs = { runId: "", generation: 0n, highestEpoch: known?.nodeEpoch ?? 0n };
  const registered = await replica.fleetStore.register({ ...host, ...runs, ticketKey }, 20_000);
  if (registered.kind !== "registered") throw new Error(registered.kind);
  const { nodeEpoch } = registered;
  await replica.fleetStore.setCondition({ hostId, nodeEpoch }, { schedulable: true, condition: "" });
  return { hostId, nodeEpoch };
}
const told = (session: { hostId: HostId; nodeEpoch: bigint }, ...gpus: Gpu[]) =>
  replica.fleetStore.setInventory(session, inventory({ gpus }));
const hostNow = async (id: HostId) => {
  const found = (await replica.snapshot()).find((host) => host.id === id);
  if (!found) throw new Error(`no host ${id}`);
  return found;
};
const healthOf = async (id: HostId) => (await hostNow(id)).inventory.gpus.map((one) => one.isHealthy);
const audit = (action: string, id: string) =>
  replica.db.selectFrom("audit").selectAll().where("action", "=", action).where("subject", "=", id).execute();

describe("a host that cannot write usage records", () => {
  it("gets no work, with the reason in its condition and in pending deployments, until it can", async () => {
    const host = await comes("full", gpu(0));
    const want = { gpu: "other", gpusPerInstance: 1, memoryBytes: 0, engine: "stoker", host: undefined } as const;
    const placed = async () =>
      place(want as Parameters<typeof place>[0], [{ ...(await hostNow(host.hostId)), state: "live" }]);
    expect(await placed()).toMatchObject({ ok: true });
    const recordsUnavailable = "its disk is full: make room";
    await replica.fleetStore.setInventory(host, { ...inventory({ gpus: [gpu(0)] }), recordsUnavailable });
    const why = `records_unwritable: ${recordsUnavailable}`;
    expect(await hostNow(host.hostId)).toMatchObject({ schedulable: false, condition: why });
    expect(await placed()).toMatchObject({ ok: false, rejections: [{ host: "full", why }] });
    await told(host, gpu(0));
    expect(await hostNow(host.hostId)).toMatchObject({ schedulable: true, condition: "" });
    expect(await placed()).toMatchObject({ ok: true });
  });
});

describe("a GPU with a fault", () => {
  it("is not allocated, also after it recovers, until an operator clears that fault", async () => {
    const host = await comes("faulty", gpu(0), gpu(1));
    await told(host, gpu(0, fault), gpu(1));
    expect(await healthOf(host.hostId)).toEqual([false, true]);
    await told(host, gpu(0), gpu(1));
    const now = await hostNow(host.hostId);
    expect(now.inventory.gpus[0]).toMatchObject({
      isHealthy: false,
      unhealthyReason: "cordoned: Xid 79: it has fallen off the bus",
      cordonedAtMs: expect.any(Number),
    });
    const want = { gpu: "other", gpusPerInstance: 2, memoryBytes: 0, engine: "stoker", host: undefined } as const;
    const placed = place(want as Parameters<typeof place>[0], [{ ...now, state: "live" }]);
    expect(placed).toMatchObject({ ok: false, rejections: [{ why: expect.stringContaining("1 unhealthy") }] });

    const { revision } = now;
    expect(await replica.fleetStore.uncordon({ host: host.hostId, gpu: "GPU-0", act })).toBe(true);
    expect(await healthOf(host.hostId)).toEqual([true, true]);
    expect((await hostNow(host.hostId)).revision).toBeGreaterThan(revision);
    expect(await replica.fleetStore.uncordon({ host: host.hostId, gpu: "GPU-0", act })).toBe(false);
    expect(await audit("gpu.cordon", "faulty/GPU-0")).toMatchObject([{ actor: "system", note: fault.unhealthyReason }]);
    expect(await audit("gpu.uncordon", "faulty/GPU-0")).toMatchObject([{ actor: "u:ada", note: "reseated" }]);
  });

  it("is not cordoned again for the cleared fault, but for the next one", async () => {
    const host = await comes("again", gpu(0, fault));
    expect(await healthOf(host.hostId)).toEqual([false]);
    await replica.fleetStore.uncordon({ host: host.hostId, gpu: undefined, act });
    await told(host, gpu(0, fault));
    expect(await healthOf(host.hostId)).toEqual([true]);
    await comes("again", gpu(0, fault));
    expect(await healthOf(host.hostId)).toEqual([true]);
    await told(host, gpu(0, { ...fault, faultId: "xid:79:b1:8" }));
    // An older session's word changes nothing.
    expect(await healthOf(host.hostId)).toEqual([true]);
    await comes("again", gpu(0, { ...fault, faultId: "xid:79:b1:8" }));
    expect(await healthOf(host.hostId)).toEqual([false]);
  });

  it("that is missing stays unused whatever an operator does; one that cannot be queried returns automatically", async () => {
    const gone = { isHealthy: false, unhealthyReason: "it is not listed any more", faultId: "gone:1" };
    const away = await comes("away", gpu(0, gone));
    await replica.fleetStore.uncordon({ host: away.hostId, gpu: undefined, act });
    expect(await healthOf(away.hostId)).toEqual([false]);
    await told(away, gpu(0));
    expect(await healthOf(away.hostId)).toEqual([true]);

    const silent = { isHealthy: false, unhealthyReason: "nvidia-smi: it did not answer within 5 s" };
    const hung = await comes("hung", gpu(0, silent));
    expect(await healthOf(hung.hostId)).toEqual([false]);
    await told(hung, gpu(0));
    expect(await healthOf(hung.hostId)).toEqual([true]);
  });
});

it("figures of a host are written with its heartbeats and read with their age, by every replica", async () => {
  const { hostId, nodeEpoch } = await comes("busy", gpu(0));
  const live: HostLive = {
    load: undefined,
    gpus: [{ uuid: "GPU-0", utilizationRatio: 0.5, processes: [] }],
    gpuSampleAgeMs: 100,
    spool: { records: 3, bytes: 900, oldestAgeSeconds: 1 },
    clockSkewSeconds: 0,
    instances: [],
  };
  const beat = { hostId, nodeEpoch, leases: { ids: [], ageMs: 2_000, live } };
  await replica.fleetStore.heard([beat]);
  // A heartbeat without a report leaves them as they are.
  await replica.fleetStore.heard([{ hostId, nodeEpoch }]);
  await vi.waitFor(
    async () => {
      const found = (await replica.live()).get(hostId);
      expect(found).toMatchObject({ live: { gpus: [{ utilizationRatio: 0.5 }], spool: { records: 3 } } });
      expect(found?.ageMs).toBeGreaterThanOrEqual(2_000);
    },
    { timeout: 20_000 },
  );
});
