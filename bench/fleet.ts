// Fleets of 100 to 5,000 hosts: placements per second (pure and in PostgreSQL), cost per host (simulated behind the session port
// at the real pace), and time from report to route over real gRPC sessions.
import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import pino from "pino";
import { createHostChooser } from "../control-plane/deployments/choose-hosts.ts";
import { createController } from "../control-plane/deployments/controller.ts";
import { createObserver } from "../control-plane/deployments/observe.ts";
import type { Want } from "../control-plane/deployments/place-fit.ts";
import { createPlacementIndex, withPlaced } from "../control-plane/deployments/place-index.ts";
import type { NewDeployment } from "../control-plane/deployments/store.ts";
import type { HostView, Inventory } from "../control-plane/fleet/host.ts";
import { createHostClocks, hostClockLimits } from "../control-plane/fleet/host-clocks.ts";
import { createLiveFigures, type HostLive } from "../control-plane/fleet/live.ts";
import { createMembership } from "../control-plane/fleet/membership.ts";
import { createRoutingTable } from "../control-plane/fleet/routing-table.ts";
import { snapshot } from "../control-plane/fleet/snapshot.ts";
import { createChangeFeed } from "../control-plane/store/core/change-feed.ts";
import { type OpenDatabase, openDatabase } from "../control-plane/store/core/database.ts";
import { createDeploymentStore } from "../control-plane/store/deployments/deployments-store.ts";
import { createReserveStore } from "../control-plane/store/deployments/gpu-reserve-store.ts";
import { createFleetStore } from "../control-plane/store/fleet/fleet-store.ts";
import { type AccountId, type HostId, randomId } from "../proto/ids.ts";
import { startFakeAgent } from "../test/fakes/agent-session.ts";
import { startPostgres, type TestPostgres } from "../test/fakes/postgres.ts";
import { startReplica } from "../test/integration/fleet/replica.ts";
import type { BenchOptions, Figures } from "./figures.ts";

const sizes = [100, 500, 1_000, 5_000];
const account = "u:bench" as AccountId;
const log = pino({ level: "silent" });
const monotonicMs = () => performance.now();
const print = (line: string) => process.stdout.write(`${line}\n`);

export async function benchFleet({ only, figures }: BenchOptions): Promise<void> {
  const isSelected = (part: string) => only === undefined || only === part;
  if (isSelected("place"))
    for (const size of sizes) print(`${size} hosts: ${Math.round(placementsPerSecond(size))} placements/s, pure`);
  if (!["durable", "sessions", "routable"].some(isSelected)) return;
  const postgres = await startPostgres();
  try {
    if (isSelected("durable")) for (const size of [500, 5_000]) await benchDurable(postgres, size, figures);
    if (isSelected("sessions")) await benchSessions(postgres, figures);
    if (isSelected("routable")) await benchRoutable(await postgres.migratedDatabase(), print);
  } finally {
    await postgres.stop();
  }
}

/** Places mixed sizes into a fleet that stays two thirds full, by removing the oldest placements. */
function placementsPerSecond(size: number): number {
  const index = createPlacementIndex(hostIds(size).map(hostView));
  const wants: Want[] = [1, 1, 1, 2, 4, 8].map((gpusPerInstance, n) => ({
    gpu: "H100-80GB",
    gpusPerInstance,
    memoryBytes: 60e9 * gpusPerInstance,
    engine: "stoker",
    host: undefined,
    weights: `org/model-${n}@main`,
    spread: new Map([["host-00007" as HostId, 1]]),
  }));
  const placed: { readonly host: HostId; readonly gpus: ReadonlySet<string> }[] = [];
  const once = (n: number) => {
    const found = index.place(wants[n % wants.length] as Want);
    if (!found) throw new Error("the fleet is full");
    const host = index.get(found.host) as HostView;
    index.put(withPlaced(host, found, account));
    placed.push({ host: found.host, gpus: new Set(found.gpus.map((gpu) => gpu.uuid)) });
    const gone = placed.length > size * 2 ? placed.shift() : undefined;
    const then = gone && index.get(gone.host);
    if (gone && then)
      index.put({
        ...then,
        claims: then.claims.filter((claim) => !gone.gpus.has(claim.gpuUuid)),
        grantedMemoryBytes: 0,
        pool: "",
      });
  };
  let n = 0;
  while (n < size * 2 + 2_000) once(n++);
  const from = performance.now();
  const first = n;
  while (performance.now() - from < 2_000) once(n++);
  return ((n - first) * 1000) / (performance.now() - from);
}

async function fleetOf(postgres: TestPostgres, size: number) {
  const { db, pool, close } = openDatabase(await postgres.migratedDatabase(), { maxConnections: 8, log });
  const ids = hostIds(size);
  await insertHosts(db, ids);
  const seal = { seal: (key: Buffer) => key, open: (sealed: Buffer) => sealed };
  const fleetStore = createFleetStore(db, seal);
  const store = createDeploymentStore(db);
  const clocks = createHostClocks({ limits: hostClockLimits, monotonicMs });
  const hostState = (host: HostId) => clocks.state(host);
  const hosts = createHostChooser({
    snapshot: (some) => snapshot({ store: fleetStore, clocks }, some),
    hostState,
    monotonicMs,
    resyncMs: 5_000,
    reserves: createReserveStore(db),
  });
  const controller = createController({ store, hosts, hostState, owner: "bench", log });
  const routing = createRoutingTable({ store: fleetStore, clocks });
  // As in production, hosts of a commit are read again before the next choice.
  const feed = createChangeFeed({ pool, log });
  feed.on("host", (host) => hosts.changed(host as HostId));
  await feed.start();
  for (const id of ids) clocks.heard(id);
  const stop = async () => {
    await feed.stop();
    await close();
  };
  return { db, close: stop, ids, fleetStore, store, clocks, controller, routing };
}

async function benchDurable(postgres: TestPostgres, size: number, figures: Figures): Promise<void> {
  const fleet = await fleetOf(postgres, size);
  await fleet.db
    .insertInto("account")
    .values({
      accountId: account,
      email: "bench@example.com",
      displayName: "bench",
      suspendReason: null,
      wrappedDek: randomBytes(60),
      kekVersion: 1,
      deletedAt: null,
    })
    .execute();
  const count = Math.min(2_000, size * 2);
  for (let n = 0; n < count; n++) await fleet.store.insert(deployment(n), () => {});
  for (const id of fleet.ids) fleet.clocks.heard(id);
  const before = process.cpuUsage();
  const from = performance.now();
  const moved = await fleet.controller.pass();
  const seconds = (performance.now() - from) / 1000;
  const cpu = process.cpuUsage(before);
  const cpuMs = (cpu.user + cpu.system) / 1000 / count;
  const placed = (await fleet.store.instances(undefined)).length;
  if (moved !== count || placed !== count) throw new Error(`${placed} of ${count} were placed`);
  const name = `${size} hosts, durable placements of one controller per second`;
  const verdict = figures.judge({ name, values: [count / seconds], ...(size === 5_000 ? { atLeast: 1_000 } : {}) });
  print(
    `${size} hosts: ${Math.round(count / seconds)} placements/s, durable, one controller (${cpuMs.toFixed(2)} ms of its CPU each)   ${verdict}`,
  );
  await fleet.close();
}

function deployment(n: number): NewDeployment {
  return {
    id: randomId<"deployment">(16),
    account,
    kind: "model",
    modelName: `bench/m${n}`,
    version: "v",
    task: "text-generation",
    type: "llm",
    engine: "stoker",
    gpu: "H100-80GB",
    numGpus: 1 + (n % 3),
    maxBatchSize: 8,
    minInstances: 1,
    maxInstances: 1,
    inactiveShutdown: null,
    extraArgs: [],
    weights: { repo: "org/w", revision: "main" },
    weightsToken: null,
    externalUrl: null,
    contextLength: 0,
    memoryBytes: 0,
  };
}

const rounds = 6;
/** Interval of host reports; heartbeats are written every 3 s. */
const reportEveryMs = 5_000;
const beatEveryMs = 3_000;

async function benchSessions(postgres: TestPostgres, figures: Figures): Promise<void> {
  const costs = new Map<number, number>();
  for (const size of sizes) {
    const fleet = await fleetOf(postgres, size);
    const observer = createObserver({ store: fleet.store, log });
    const figures = createLiveFigures(monotonicMs);
    const membership = createMembership({
      store: fleet.fleetStore,
      clocks: fleet.clocks,
      routing: fleet.routing,
      figures,
      monotonicMs,
      log,
      leaseMs: hostClockLimits.leaseMs,
      everyMs: beatEveryMs,
    });
    const reports = fleet.ids.map((hostId) => ({ session: { hostId, nodeEpoch: 1n }, live: liveOf(hostId) }));
    const ending = new AbortController();
    const beating = membership.run(ending.signal);
    const round = async () => {
      const from = performance.now();
      for (let at = 0; at < reports.length; at++) {
        const { session, live } = reports[at] as (typeof reports)[number];
        membership.heard(session);
        await membership.report(session, { inventory: undefined, openLeaseIds: [], live });
        await observer.observe({ ...session, instances: [], removed: [] });
        // Spread the reports, as real hosts do.
        const dueMs = from + (at / reports.length) * reportEveryMs;
        if (dueMs - performance.now() > 5)
          await new Promise((resolve) => setTimeout(resolve, dueMs - performance.now()));
      }
      await fleet.routing.refresh();
      await fleet.controller.pass();
      const left = from + reportEveryMs - performance.now();
      if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
    };
    await round();
    const before = { cpu: process.cpuUsage(), writes: await writesOf(fleet.db), at: performance.now() };
    for (let n = 0; n < rounds; n++) await round();
    const cpu = process.cpuUsage(before.cpu);
    const seconds = (performance.now() - before.at) / 1000;
    const cores = (cpu.user + cpu.system) / 1e6 / seconds;
    const writes = await writesOf(fleet.db);
    const beats = (seconds * 1000 * size) / reportEveryMs;
    const perAgent = cores / size;
    costs.set(size, perAgent);
    print(
      `${size} hosts: ${(cores * 100).toFixed(1)} % of a core, ${(perAgent * 1e6).toFixed(0)} us/s per agent, ` +
        `${Math.round(process.memoryUsage().rss / 1024 ** 2)} MiB resident, ` +
        `${((writes.rows - before.writes.rows) / beats).toFixed(2)} rows and ` +
        `${((writes.commits - before.writes.commits) / beats).toFixed(3)} transactions per heartbeat`,
    );
    ending.abort();
    await beating;
    await fleet.close();
  }
  const ratio = (costs.get(5_000) ?? 0) / (costs.get(500) ?? 1);
  const verdict = figures.judge({ name: "CPU of a session, 5,000 hosts / 500", values: [ratio], atMost: 1.3 });
  print(`cost per agent, 5,000 : 500 = ${ratio.toFixed(2)}   ${verdict}`);
}

async function writesOf(db: Awaited<ReturnType<typeof fleetOf>>["db"]) {
  const { rows } = await db.executeQuery<{ commits: bigint; rows: bigint }>(
    sql`select pg_stat_clear_snapshot(), xact_commit as commits, tup_inserted + tup_updated as rows
      from pg_stat_database where datname = current_database()`.compile(db),
  );
  return { commits: Number(rows[0]?.commits ?? 0n), rows: Number(rows[0]?.rows ?? 0n) };
}

const gib = 1024 ** 3;
const gpusPerHost = 8;

const hostIds = (count: number) =>
  Array.from({ length: count }, (_, n) => `host-${String(n).padStart(5, "0")}` as HostId);

function inventoryOf(id: HostId): Inventory {
  return {
    os: "linux",
    cpuModel: "bench",
    cpuCores: 128,
    cpuPhysicalCores: 64,
    memoryBytes: 2048 * gib,
    diskTotalBytes: 8192 * gib,
    diskFreeBytes: 4096 * gib,
    drivers: ["docker"],
    dockerVersion: "29",
    nvidiaDriverVersion: "580",
    cudaVersion: "13",
    hasNvidiaRuntime: true,
    disks: [],
    networks: [],
    warnings: [],
    metricsAddress: "",
    gpus: Array.from({ length: gpusPerHost }, (_, index) => ({
      uuid: `GPU-${id}-${index}`,
      index,
      type: "H100-80GB" as const,
      name: "H100",
      memoryBytes: 80 * gib,
      isHealthy: true,
      unhealthyReason: "",
      faultId: "",
      migProfile: "",
    })),
  };
}

function hostView(id: HostId): HostView {
  return {
    id,
    hostname: id,
    advertise: "http://127.0.0.1:9",
    inventory: inventoryOf(id),
    nodeEpoch: 1n,
    generation: 0n,
    revision: 0n,
    schedulable: true,
    condition: "",
    agentVersion: "bench",
    claims: [],
    grantedMemoryBytes: 0,
    pool: "",
    keptWeights: new Set<string>(),
    gpuMemoryUsed: new Map<string, number>(),
    createdAtMs: 0,
    state: "live" as const,
    silentMs: 0,
  };
}

/** Report of a host with eight GPUs. */
function liveOf(id: HostId): HostLive {
  return {
    gpuSampleAgeMs: 400,
    spool: { records: 3, bytes: 900, oldestAgeSeconds: 1 },
    clockSkewSeconds: 0.001,
    load: {
      cpuRatio: 0.3,
      memoryUsedBytes: 400 * gib,
      memoryTotalBytes: 2048 * gib,
      diskFreeBytes: 4096 * gib,
      diskTotalBytes: 8192 * gib,
    },
    gpus: Array.from({ length: gpusPerHost }, (_, index) => ({
      uuid: `GPU-${id}-${index}`,
      utilizationRatio: 0.5,
      memoryUsedBytes: gib,
      memoryTotalBytes: 80 * gib,
      temperatureCelsius: 60,
      powerWatts: 500,
      powerLimitWatts: 700,
      smClockHertz: 1.9e9,
      processes: [],
    })),
    instances: [],
  };
}

async function insertHosts(db: OpenDatabase["db"], ids: readonly HostId[]): Promise<void> {
  for (let at = 0; at < ids.length; at += 500)
    await db
      .insertInto("host")
      .values(
        ids.slice(at, at + 500).map((id) => ({
          hostId: id,
          hostname: id,
          advertise: "http://127.0.0.1:9",
          agentVersion: "bench",
          schedulable: true,
          inventory: JSON.stringify(inventoryOf(id)),
          nodeEpoch: 1n,
          ticketKey: Buffer.alloc(32),
          seenAt: new Date(),
        })),
      )
      .execute();
}

const agentCount = 100;
const deployments = 40;

async function benchRoutable(url: string, print: (line: string) => void): Promise<void> {
  const replica = await startReplica(url);
  const agents = await Promise.all(
    Array.from({ length: agentCount }, (_, n) =>
      startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: `host-${n}`, gpus: 1 }),
    ),
  );
  const refused = new Map<string, number>();
  try {
    for (const agent of agents) agent.connect();
    await until(() => {
      // Reconnect refused agents, as real agents do.
      for (const agent of agents) {
        if (agent.ended === undefined) continue;
        refused.set(agent.ended, (refused.get(agent.ended) ?? 0) + 1);
        agent.connect();
      }
      return agents.every((agent) => agent.provenTimes > 0);
    });
    const waits: number[] = [];
    for (let n = 0; n < deployments; n++) {
      const { id } = await replica.deploy({ modelName: `ada/m${n}` });
      const findAgent = () => agents.find((agent) => agent.desired?.instances.some((one) => one.deployId === id));
      await until(() => findAgent() !== undefined);
      const agent = findAgent();
      const mine = (agent?.desired?.instances ?? []).map((one) => ({
        instanceId: one.instanceId,
        deployId: one.deployId,
        generation: one.generation,
        phase: "ready",
      }));
      const from = performance.now();
      agent?.report(mine);
      await until(() => replica.routing.ready(id).length > 0);
      waits.push(performance.now() - from);
    }
    waits.sort((a, b) => a - b);
    const at = (share: number) => Math.round(waits[Math.floor(share * (waits.length - 1))] ?? 0);
    print(`${agentCount} real sessions: report to routable p50 ${at(0.5)} ms, p95 ${at(0.95)} ms`);
    for (const [why, times] of refused) print(`  refused ${times} times: ${why}`);
  } finally {
    await Promise.all(agents.map((agent) => agent.close()));
    await replica.stop();
  }
}

async function until(isTrue: () => boolean): Promise<void> {
  const end = performance.now() + 60_000;
  while (!isTrue()) {
    if (performance.now() > end) throw new Error("condition not met within 60 s");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
