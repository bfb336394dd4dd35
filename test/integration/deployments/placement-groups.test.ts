// Placements of many deployments in one transaction, on a real PostgreSQL: the same result as one at a time, no GPU claimed twice by
// two controllers, and a conflict that concerns only its own deployment. The seed is printed; STOKER_PROPERTY_SEED repeats a run.
import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createHostChooser } from "../../../control-plane/deployments/choose-hosts.ts";
import { createController } from "../../../control-plane/deployments/controller.ts";
import { decide } from "../../../control-plane/deployments/decide.ts";
import type { Claimed, Decision, NewDeployment } from "../../../control-plane/deployments/store.ts";
import { createHostClocks } from "../../../control-plane/fleet/host-clocks.ts";
import { snapshot } from "../../../control-plane/fleet/snapshot.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { createDeploymentStore } from "../../../control-plane/store/deployments/deployments-store.ts";
import { createReserveStore } from "../../../control-plane/store/deployments/gpu-reserve-store.ts";
import { createFleetStore } from "../../../control-plane/store/fleet/fleet-store.ts";
import type { AccountId, DeploymentId, HostId } from "../../../proto/ids.ts";
import { gib, gpu, inventory } from "../../fakes/fleet-records.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";

const seed = Number(process.env["STOKER_PROPERTY_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const rounds = 30;
const accounts = ["u:ada", "u:bob"] as AccountId[];
const log = pino({ level: "silent" });
const gpusPerHost = 4;

let postgres: TestDatabases;
const closing: (() => Promise<void>)[] = [];
beforeAll(async () => {
  process.stderr.write(`placement-groups: STOKER_PROPERTY_SEED=${seed}\n`);
  postgres = await sharedPostgres();
});
afterAll(async () => {
  for (const close of closing) await close();
  await postgres?.stop();
});

/** A database with these hosts and both accounts. */
async function fleet(hostCount: number, minimums: Readonly<Record<string, number>> = {}) {
  const url = await postgres.migratedDatabase();
  const { db, close } = openDatabase(url, { maxConnections: 8, log });
  closing.push(close);
  for (const accountId of accounts) {
    const profile = { email: `${accountId.slice(2)}@example.com`, displayName: accountId.slice(2) };
    const secret = { wrappedDek: randomBytes(60), kekVersion: 1 };
    await db
      .insertInto("account")
      .values({ accountId, ...profile, ...secret, suspendReason: null, deletedAt: null })
      .execute();
    const least = minimums[accountId];
    if (least !== undefined)
      await db
        .insertInto("accountLimit")
        .values({ accountId, gpuMin: JSON.stringify({ "H100-80GB": least }) } as never)
        .execute();
  }
  const ids = Array.from({ length: hostCount }, (_, n) => `host-${String(n).padStart(3, "0")}` as HostId);
  const gpus = (id: HostId) =>
    Array.from({ length: gpusPerHost }, (_, n) =>
      gpu(n, { uuid: `GPU-${id}-${n}`, type: "H100-80GB", memoryBytes: 80 * gib }),
    );
  await db
    .insertInto("host")
    .values(
      ids.map((id) => ({
        hostId: id,
        hostname: id,
        advertise: "http://127.0.0.1:9",
        agentVersion: "test",
        schedulable: true,
        inventory: JSON.stringify(
          inventory({ gpus: gpus(id), drivers: ["docker"], hasNvidiaRuntime: true, memoryBytes: 2048 * gib }),
        ),
        nodeEpoch: 1n,
        ticketKey: Buffer.alloc(32),
        seenAt: new Date(),
      })),
    )
    .execute();
  const store = createDeploymentStore(db);
  const seal = { seal: (key: Buffer) => key, open: (sealed: Buffer) => sealed };
  const fleetStore = createFleetStore(db, seal);
  /** A control plane's controller and its own view of the fleet. */
  const control = (owner: string, groupSize?: number) => {
    const monotonicMs = () => performance.now();
    const clocks = createHostClocks({ limits: { leaseMs: 600_000, lostMs: 900_000 }, monotonicMs });
    for (const id of ids) clocks.heard(id);
    const hostState = (host: HostId) => clocks.state(host);
    const hosts = createHostChooser({
      snapshot: (some) => snapshot({ store: fleetStore, clocks }, some),
      ...{ hostState, monotonicMs, resyncMs: 5_000, reserves: createReserveStore(db) },
    });
    const size = groupSize === undefined ? {} : { groupSize };
    return { hosts, hostState, ...createController({ store, hosts, hostState, owner, log, ...size }) };
  };
  /** Deployment, host and GPUs of every instance. */
  const placed = async () =>
    (await db.selectFrom("instance").select(["deployId", "hostId", "gpuUuids", "gpuMemoryBytes"]).execute())
      .map((row) => [row.deployId, row.hostId, row.gpuUuids.join(), Number(row.gpuMemoryBytes)].join(" "))
      .sort();
  return { db, store, control, placed };
}

type Fleet = Awaited<ReturnType<typeof fleet>>;

function deployment(n: number, over: Partial<NewDeployment> = {}): NewDeployment {
  return {
    ...{ id: `D${String(n).padStart(15, "0")}` as DeploymentId, account: accounts[n % 2] as AccountId },
    ...{ kind: "model", modelName: `m${n}`, version: "v", task: "text-generation", type: "llm", engine: "stoker" },
    ...{ gpu: "H100-80GB", numGpus: 1, maxBatchSize: 8, minInstances: 1, maxInstances: 4, inactiveShutdown: null },
    ...{ extraArgs: [], weights: { repo: "org/w", revision: "main" }, weightsToken: null, externalUrl: null },
    ...{ contextLength: 0, memoryBytes: 0 },
    ...over,
  };
}

/** Whole GPUs, several of them, and small models that share one; up to two instances. */
function mixed(count: number, next: (below: number) => number): readonly NewDeployment[] {
  return Array.from({ length: count }, (_, n) => {
    const isSmall = next(3) === 0;
    const numGpus = isSmall ? 1 : 1 + next(gpusPerHost);
    const memory = isSmall ? { memoryBytes: (10 + next(30)) * gib, isMemoryBound: true } : {};
    return deployment(n, { numGpus, minInstances: 1 + next(2), ...memory });
  });
}

/** Every GPU belongs to one account, holds no more than its memory, and its claim is the sum of its instances. */
async function checkClaims({ db }: Fleet): Promise<number> {
  const instances = await db.selectFrom("instance").selectAll().execute();
  const claims = await db.selectFrom("gpuClaim").selectAll().execute();
  const uses = Map.groupBy(
    instances.flatMap((one) => one.gpuUuids.map((uuid) => ({ uuid, one }))),
    ({ uuid }) => uuid,
  );
  expect(claims.map((claim) => claim.gpuUuid).sort()).toEqual([...uses.keys()].sort());
  for (const { gpuUuid, accountId, claimedBytes, memoryBytes } of claims) {
    const own = uses.get(gpuUuid) ?? [];
    expect(new Set(own.map(({ one }) => one.accountId))).toEqual(new Set([accountId]));
    const bytes = own.reduce((sum, { one }) => sum + (one.gpuMemoryBytes || memoryBytes), 0n);
    expect(bytes).toBe(claimedBytes);
    expect(claimedBytes <= memoryBytes).toBe(true);
  }
  return instances.length;
}

describe("placement in groups", () => {
  it("places every instance where it would be placed one at a time, and gives the same reasons for the others", async () => {
    for (let round = 0; round < rounds; round++) {
      const results = [];
      for (const groupSize of [1, 200]) {
        const world = await fleet(12, { [accounts[1] as string]: 20 });
        for (const one of mixed(30, randomOf(seed + round))) await world.store.insert(one, () => {});
        const { pass } = world.control("a", groupSize);
        await pass();
        const reasons = (await world.store.active(undefined)).map(({ deployment: one }) => one.pendingReasons);
        results.push({ placed: await world.placed(), reasons });
        await checkClaims(world);
      }
      expect(results[1]).toEqual(results[0]);
      expect(results[0]?.placed.length).toBeGreaterThan(10);
    }
  });

  it("never claims a GPU twice when two controllers place groups at the same time", async () => {
    for (let round = 0; round < rounds; round++) {
      const world = await fleet(20);
      const next = randomOf(seed + 1_000 + round);
      for (const one of mixed(60, next)) await world.store.insert(one, () => {});
      const controls = [world.control("a", 1 + next(60)), world.control("b", 1 + next(60))];
      await vi.waitFor(
        async () => {
          // A held or lost step is taken by a later pass.
          const moved = await Promise.all(controls.map(({ pass }) => pass()));
          await checkClaims(world);
          for (const { hosts } of controls) hosts.changed(undefined);
          expect(moved).toEqual([0, 0]);
        },
        { timeout: 60_000, interval: 10 },
      );
      expect(await checkClaims(world)).toBeGreaterThan(15);
      const all = await world.store.active(undefined);
      const isPlaced = ({ deployment: one, instances }: (typeof all)[number]) =>
        instances.length === one.minInstances || one.pendingReasons.length > 0;
      expect(all.every(isPlaced)).toBe(true);
    }
  });
});

/** Decides about claimed deployments as a controller does, without the commit. */
async function decideOn(
  { hosts, hostState }: ReturnType<Fleet["control"]>,
  claimed: readonly Claimed[],
): Promise<readonly Decision[]> {
  const leaving = { dueAtMs: new Map(), gpus: new Map() };
  const facts = { hostState, leaving, nowMs: Date.now() };
  const plans = claimed.map((one) => decide(one.deployment, one.instances, facts));
  const chosen = await hosts.choose(
    claimed.map(({ deployment: own, instances }, n) => ({
      deployment: own,
      instances,
      count: plans[n]?.plan.place ?? 0,
    })),
  );
  return claimed.map((one, n) => {
    const { outcome, plan } = plans[n] as (typeof plans)[number];
    const { placements = [], reasons = [], reserve, sharing } = chosen[n] ?? {};
    const rest = { tombstones: plan.tombstone, revised: plan.revise, replacements: undefined };
    return { claimed: one, verdict: { ...outcome, placements, pendingReasons: reasons, reserve, sharing, ...rest } };
  });
}

describe("a conflict in a group", () => {
  it("leaves out the deployment that changed and the one whose host changed, and writes the others", async () => {
    const world = await fleet(4);
    const ids = [];
    // A whole host each.
    for (let n = 0; n < 4; n++)
      ids.push((await world.store.insert(deployment(n, { numGpus: gpusPerHost }), () => {})) as { id: DeploymentId });
    const names = ids.map(({ id }) => id);
    const decisions = await decideOn(world.control("a"), await world.store.claim(names, "a", 30_000));
    const [changed, moved] = decisions as [Decision, Decision];
    const { id, account, revision } = changed.claimed.deployment;
    expect(await world.store.change(id, account, revision, { maxInstances: 2 })).toBe(true);
    const taken = moved.verdict.placements[0]?.hostId as HostId;
    await world.db.updateTable("host").set({ revision: 7n }).where("hostId", "=", taken).execute();

    expect(await world.store.commit(decisions)).toEqual(new Set(names.slice(2)));
    expect((await world.placed()).map((line) => line.split(" ")[0])).toEqual(names.slice(2));
    expect(await checkClaims(world)).toBe(2);
    // Written ones have no claim; the others keep theirs until they are released.
    expect(await world.store.claim(names, "b", 30_000)).toHaveLength(2);
    await world.store.release(decisions.slice(0, 2).map(({ claimed }) => claimed));
    expect(await world.store.claim(names.slice(0, 2), "b", 30_000)).toHaveLength(2);
  });

  it("does not wait for a host or a deployment that another transaction holds", async () => {
    const world = await fleet(2);
    for (let n = 0; n < 2; n++) await world.store.insert(deployment(n, { numGpus: gpusPerHost }), () => {});
    const names = [deployment(0).id, deployment(1).id];
    const decisions = await decideOn(world.control("a"), await world.store.claim(names, "a", 30_000));
    const held = decisions[0]?.verdict.placements[0]?.hostId as HostId;
    await world.db.transaction().execute(async (trx) => {
      await trx.selectFrom("host").select("hostId").where("hostId", "=", held).forUpdate().execute();
      expect(await world.store.commit(decisions)).toEqual(new Set([names[1]]));
    });
    expect(await world.placed()).toHaveLength(1);
  });

  it.each([
    ["GPU reserve", {}, "gpu_reserve", 1],
    ["shared GPU", { memoryBytes: 50 * gib, isMemoryBound: true }, "gpu_sharing", 0],
  ] as const)("does not wait for a %s that another transaction changes", async (_, over, table, minimum) => {
    const world = await fleet(2, { [accounts[1] as string]: minimum });
    const first = deployment(0, over);
    await world.store.insert(first, () => {});
    const control = world.control("a");
    expect(await control.pass()).toBe(1);
    expect((await sql`select from ${sql.table(table)}`.execute(world.db)).rows).toHaveLength(1);
    const second = deployment(2, over);
    await world.store.insert(second, () => {});
    control.hosts.changed(undefined);
    const decisions = await decideOn(control, await world.store.claim([second.id], "a", 30_000));
    await world.db.transaction().execute(async (trx) => {
      await sql`select from ${sql.table(table)} for update`.execute(trx);
      expect(await world.store.commit(decisions)).toEqual(new Set());
    });
    expect(await world.store.commit(decisions)).toEqual(new Set([second.id]));
    expect(await checkClaims(world)).toBe(2);
  });

  it("refuses a group whose claims have expired and belong to another controller", async () => {
    const world = await fleet(4);
    for (let n = 0; n < 4; n++) await world.store.insert(deployment(n), () => {});
    const names = [0, 1, 2, 3].map((n) => deployment(n).id);
    const decisions = await decideOn(world.control("a"), await world.store.claim(names, "a", 0));
    const again = await world.store.claim(names, "b", 30_000);
    expect(again).toHaveLength(4);
    expect(await world.store.commit(decisions)).toEqual(new Set());
    expect(await world.placed()).toEqual([]);
    // Nothing of a controller that died between choice and commit remains: the other one places all.
    await world.store.release(again);
    expect(await world.control("b").pass()).toBe(4);
    expect(await checkClaims(world)).toBe(4);
  });
});

/** Mulberry32: the same numbers for the same seed everywhere. */
function randomOf(start: number): (below: number) => number {
  let state = start >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}
