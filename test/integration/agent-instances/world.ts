// Agent instances on a real database; hosts are rows, and what they tell is written as the session would.

import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import pino from "pino";
import { permissions } from "../../../control-plane/accounts/permissions.ts";
import type { Act } from "../../../control-plane/act.ts";
import { createAgentInstances } from "../../../control-plane/agent-instances/agent-instances.ts";
import { createAgentBackups } from "../../../control-plane/agent-instances/backups.ts";
import { dashboardAddress } from "../../../control-plane/agent-instances/dashboard-address.ts";
import { createDashboards } from "../../../control-plane/agent-instances/dashboards.ts";
import type { AgentType } from "../../../control-plane/agent-instances/store.ts";
import type { HostView } from "../../../control-plane/fleet/host.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { createAgentInstanceStore } from "../../../control-plane/store/deployments/agent-instance-store.ts";
import { createBackupStore } from "../../../control-plane/store/deployments/backup-store.ts";
import { createDashboardStore } from "../../../control-plane/store/deployments/dashboard-store.ts";
import type { AccountId, DeploymentId, HostId } from "../../../proto/ids.ts";
import { workspace } from "../../fakes/agent-instance-ports.ts";

export const ada = { account: "u:ada" as AccountId, suspendReason: null };
export const bob = { account: "u:bob" as AccountId, suspendReason: null };
const log = pino({ level: "silent" });

export const hostView: HostView = {
  id: "host-1" as HostId,
  hostname: "host-1",
  state: "live",
  silentMs: 0,
  schedulable: true,
  condition: "",
  revision: 1n,
  claims: [],
  grantedMemoryBytes: 0,
  pool: "",
  keptWeights: new Set(),
  gpuMemoryUsed: new Map(),
  inventory: { drivers: ["docker"], gpus: [], memoryBytes: 8 * 1024 ** 3 },
} as unknown as HostView;

export const ip = "203.0.113.9";
/** A person who acts in an account that is not their own. */
export const act: Act = { by: "u:person", ip, note: "" };
export const request = { name: "mine", type: "workspace", plan: "standard" };

export type World = Awaited<ReturnType<typeof openWorld>>;

export async function openWorld(url: string) {
  const database = openDatabase(url, { maxConnections: 6, log });
  const { db } = database;
  for (const { account } of [ada, bob])
    await db
      .insertInto("account")
      .values({
        accountId: account,
        email: `${account}@example.com`,
        displayName: account,
        suspendReason: null,
        wrappedDek: randomBytes(60),
        kekVersion: 1,
        deletedAt: null,
      })
      .execute();
  await db
    .insertInto("host")
    .values({
      hostId: hostView.id,
      hostname: "host-1",
      advertise: "http://203.0.113.7:9100",
      inventory: "{}",
      nodeEpoch: 1n,
      ticketKey: Buffer.alloc(32),
      agentVersion: "",
    } as never)
    .execute();
  const store = createAgentInstanceStore(db);
  const backupStore = createBackupStore(db);
  const given = {
    funds: 1_000_000_000n as bigint | null,
    needed: 0n,
    hosts: [hostView] as readonly HostView[],
    nowMs: Date.now(),
    /** Monotonic. */
    clockMs: 0,
    agentOrigin: "",
    ticketKey: Buffer.alloc(32),
  };
  const types = new Map<string, AgentType>([[workspace.id, workspace]]);
  const dashboardStore = createDashboardStore(db, permissions.change.members);
  const dashboards = createDashboards({
    address: dashboardAddress("http://*.localhost"),
    store: dashboardStore,
    dataPath: async () => ({ origin: given.agentOrigin, ticketKey: given.ticketKey }),
    clock: () => given.clockMs,
  });
  const instances = createAgentInstances({
    store,
    catalog: { types },
    dashboards,
    snapshot: async () => given.hosts,
    limit: 3,
    funds: async () => given.funds,
    firstMinutes: async () => given.needed,
  });
  const backups = createAgentBackups({
    store: backupStore,
    instanceExists: async (owner, id) => (await store.get(id, owner.account)) !== undefined,
    catalog: { types },
    unixMs: () => given.nowMs,
    log,
  });

  return {
    db,
    given,
    types,
    instances,
    dashboards,
    dashboardStore,
    backups,
    backupStore,
    /** As the controller and the host would have brought it there. */
    async runs(id: DeploymentId, status = "deployed"): Promise<void> {
      await sql`update deployment set status = ${status}, revision = revision + 1,
        weights = weights || '{"host": "host-1"}' where deploy_id = ${id}`.execute(db);
    },
    open: () => db.selectFrom("hostCommand").selectAll().where("outcome", "is", null).orderBy("createdAt").execute(),
    /** The host tells the outcome of a command of that kind. */
    async told(kind: string, outcome: string, result: object = {}, message = ""): Promise<void> {
      await db
        .updateTable("hostCommand")
        .set({ outcome, result: JSON.stringify(result), errorMessage: message })
        .where("kind", "=", kind)
        .where("outcome", "is", null)
        .execute();
    },
    /** As it was opened. */
    async empty(): Promise<void> {
      await sql`truncate instance_backup, agent_instance, host_command cascade`.execute(db);
      await sql`delete from instance`.execute(db);
      await sql`delete from deployment_spec`.execute(db);
      await sql`delete from deployment`.execute(db);
      Object.assign(given, { funds: 1_000_000_000n, needed: 0n, hosts: [hostView], nowMs: Date.now() });
    },
    close: () => database.close(),
  };
}

/** An instance of ada's that runs. */
export async function made(world: World, name = "mine"): Promise<DeploymentId> {
  const id = await world.instances.create(ada, { ...request, name }, act);
  await world.runs(id);
  return id;
}

/** A backup that is ready. */
export async function saved(world: World, id: DeploymentId) {
  const backup = await world.backups.backup(ada, id, act);
  await world.told("volume.backup", "done", { sha256: "ab", sizeBytes: 1234 });
  await world.backups.settle();
  return backup;
}
