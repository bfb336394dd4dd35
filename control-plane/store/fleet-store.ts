import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import { type GpuType, isGpuType } from "../../proto/gpu.ts";
import type { AccountId, AdapterId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type {
  FleetStore,
  GpuClaim,
  HostLive,
  HostRecord,
  HostSession,
  Inventory,
  TicketKeySeal,
} from "../fleet/store.ts";
import { asked } from "./asked.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import { instanceBatchSize } from "./deployment-rows.ts";
import { cordonedGpus, cordonFaulty, liftCordons, withCordons } from "./gpu-cordons.ts";
import { hostOperations, withOperation } from "./host-operation-store.ts";
import { adoptHost, registerHost } from "./register-host.ts";
import type { Database } from "./schema.ts";
import { unknownCondition } from "./unknown-instances.ts";

export function createFleetStore(db: Kysely<Database>, seal: TicketKeySeal): FleetStore {
  return asked<FleetStore>({
    register: (host, leaseMs) => inTransaction(db, (trx) => registerHost(trx, seal, host, leaseMs)),

    adopt: (host, act, grantOf) => inTransaction(db, (trx) => adoptHost(trx, host, act, grantOf)),

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

    async revoked() {
      const rows = await db.selectFrom("node_identity").select("host_id").where("revoked_at", "is not", null).execute();
      return new Set(rows.map((row) => row.host_id as HostId));
    },

    async barred() {
      const rows = await db
        .selectFrom("node_identity")
        .select("host_id")
        .where("revoked_at", "is not", null)
        // Clocks of hosts are not ours: a day more.
        .where("not_after", ">", sql<Date>`now() - interval '1 day'`)
        .execute();
      return rows.map((row) => row.host_id as HostId);
    },

    async runOf(host) {
      const row = await db.selectFrom("host").select("run_id").where("host_id", "=", host).executeTakeFirst();
      return row?.run_id;
    },

    async seenAt() {
      const rows = await db.selectFrom("host").select(["host_id", "seen_at"]).execute();
      return new Map(rows.map((row) => [row.host_id as HostId, row.seen_at.getTime()]));
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

    async live(only) {
      const age = sql<number>`(extract(epoch from now() - reported_at) * 1000)::float8`;
      const rows = await db
        .selectFrom("host")
        .select(["host_id", "live", age.as("age_ms")])
        .where("live", "is not", null)
        .$if(only !== undefined, (query) => query.where("host_id", "in", [...(only ?? [])]))
        .execute();
      return new Map(rows.map((row) => [row.host_id as HostId, { live: row.live as HostLive, ageMs: row.age_ms }]));
    },

    uncordon: (wish) => liftCordons(db, wish),
    cordonedGpus: () => cordonedGpus(db),

    async openLeases() {
      const rows = await db
        .selectFrom("host")
        .select(["host_id", "open_lease_ids"])
        .select(
          sql<number>`(extract(epoch from now() - coalesce(reported_at, created_at)) * 1000)::float8`.as("age_ms"),
        )
        .execute();
      return rows.map((row) => ({
        hostId: row.host_id as HostId,
        leaseIds: row.open_lease_ids,
        reportAgeMs: row.age_ms,
      }));
    },

    async hosts(only) {
      const among = <Query extends { where(column: "host_id", how: "in", ids: string[]): Query }>(query: Query) =>
        only ? query.where("host_id", "in", [...only]) : query;
      if (only?.length === 0) return [];
      const rows = await among(
        db
          .selectFrom("host")
          .select([...recordColumns, "kept_weights", gpuMemoryUsed.as("gpu_memory_used"), poolOf.as("pool")]),
      )
        .orderBy("host_id")
        .execute();
      const claims = Map.groupBy(
        await among(db.selectFrom("gpu_claim").selectAll()).execute(),
        (claim) => claim.host_id,
      );
      const cordons = Map.groupBy(
        await among(db.selectFrom("gpu_cordon").selectAll()).execute(),
        (cordon) => cordon.host_id,
      );
      const granted = new Map(
        (
          await among(
            db
              .selectFrom("instance")
              .select(["host_id", sql<bigint>`sum(granted_bytes)::bigint`.as("bytes")])
              .where("granted_bytes", ">", 0n)
              .groupBy("host_id"),
          ).execute()
        ).map((row) => [row.host_id, Number(row.bytes)]),
      );
      const operations = await hostOperations(db);
      return rows.map((row) => ({
        ...withOperation(
          hostRecord(row, (claims.get(row.host_id) ?? []).map(claimOf), cordons.get(row.host_id) ?? []),
          operations.get(row.host_id),
        ),
        grantedMemoryBytes: granted.get(row.host_id) ?? 0,
        pool: row.pool ?? "",
        keptWeights: new Set(row.kept_weights),
        gpuMemoryUsed: new Map(Object.entries(row.gpu_memory_used ?? {})),
      }));
    },

    setKeptWeights: (session, keys) =>
      inTransaction(db, async (trx) => {
        const moved = await ofSession(trx, session)
          .set({ kept_weights: [...keys] })
          .executeTakeFirst();
        if (moved.numUpdatedRows > 0n) await announce(trx, "host", session.hostId);
      }),

    async dataPath(host) {
      const row = await db
        .selectFrom("host")
        .select(["advertise", "ticket_key"])
        .where("host_id", "=", host)
        .executeTakeFirst();
      return row && { origin: row.advertise, ticketKey: seal.open(row.ticket_key, host) };
    },

    async neighbours(host, repo, limit) {
      const holds = sql<boolean>`exists (
        select from instance i join deployment d using (deploy_id) where i.host_id = host.host_id
          and (d.weights->>'repo' = ${repo} or 'pypi:' || (d.weights->>'pypiPackage') = ${repo}))`;
      const rows = await db
        .selectFrom("host")
        .select(["host_id", "advertise", "ticket_key"])
        .where("host_id", "!=", host)
        .where("schedulable", "=", true)
        .orderBy(holds, "desc")
        .orderBy("seen_at", "desc")
        .limit(limit)
        .execute();
      return rows.map((row) => ({
        hostId: row.host_id as HostId,
        origin: row.advertise,
        ticketKey: seal.open(row.ticket_key, row.host_id as HostId),
      }));
    },

    async readyInstances() {
      const rows = await db
        .selectFrom("instance as i")
        .innerJoin("host as h", "h.host_id", "i.host_id")
        .innerJoin("deployment as d", "d.deploy_id", "i.deploy_id")
        .select(["i.instance_id", "i.deploy_id", "i.host_id", "h.advertise", "h.ticket_key", "h.node_epoch"])
        .select(["i.adapters", instanceBatchSize.as("batch_size")])
        .where("d.kind", "=", "model")
        .where("i.phase", "=", "ready")
        .where("i.tombstoned_at", "is", null)
        .where((eb) =>
          eb.not(
            eb.exists(
              eb
                .selectFrom("node_identity as n")
                .select("n.host_id")
                .whereRef("n.host_id", "=", "h.host_id")
                .where("n.revoked_at", "is not", null),
            ),
          ),
        )
        .execute();
      return rows.map((row) => ({
        instanceId: row.instance_id as InstanceId,
        deployId: row.deploy_id as DeploymentId,
        hostId: row.host_id as HostId,
        origin: row.advertise,
        ticketKey: seal.open(row.ticket_key, row.host_id as HostId),
        maxBatchSize: row.batch_size,
        adapters: new Set(row.adapters as AdapterId[]),
        nodeEpoch: row.node_epoch,
      }));
    },
  });
}

/** All but the figures of the last report, which most readers have no use for. */
const recordColumns = [
  ...(["host_id", "hostname", "advertise", "inventory", "node_epoch", "generation", "revision"] as const),
  ...(["schedulable", "condition", "agent_version", "created_at", "identity_alert", "unknown_instances"] as const),
] as const;

/** What a report older than this says of memory is not believed any more. */
const gpuMemoryUsed = sql<Record<
  string,
  number
> | null>`case when host.reported_at > now() - interval '30 seconds' then (
  select jsonb_object_agg(gpu->>'uuid', gpu->'memoryUsedBytes') from jsonb_array_elements(host.live->'gpus') gpu
  where jsonb_typeof(gpu->'memoryUsedBytes') = 'number') end`;

const poolOf = sql<string | null>`(select pool from node_identity n where n.host_id = host.host_id)`;

const claimOf = (row: Selectable<Database["gpu_claim"]>): GpuClaim => ({
  gpuUuid: row.gpu_uuid,
  account: row.account_id as AccountId,
  // All of it is nobody's to add to.
  ...(row.claimed_bytes < row.memory_bytes ? { memoryBytes: Number(row.claimed_bytes) } : {}),
});

/** An older session's write changes nothing. */
const ofSession = (db: Kysely<Database> | Transaction<Database>, session: HostSession) =>
  db.updateTable("host").where("host_id", "=", session.hostId).where("node_epoch", "=", session.nodeEpoch);

function hostRecord(
  row: Pick<Selectable<Database["host"]>, (typeof recordColumns)[number]>,
  claims: readonly GpuClaim[],
  cordons: Parameters<typeof withCordons>[1],
): Omit<HostRecord, "grantedMemoryBytes" | "keptWeights" | "gpuMemoryUsed" | "pool"> {
  const inventory = withCordons(row.inventory as Inventory, cordons);
  return {
    id: row.host_id as HostId,
    hostname: row.hostname,
    advertise: row.advertise,
    inventory: { ...inventory, gpus: inventory.gpus.map((gpu) => ({ ...gpu, type: gpuType(gpu.type) })) },
    nodeEpoch: row.node_epoch,
    generation: row.generation,
    revision: row.revision,
    schedulable: row.schedulable && !inventory.recordsUnavailable,
    // Two agents of one identity are told of wherever the host is shown, also while one of them serves.
    condition: [row.identity_alert, row.condition, recordsCondition(inventory), unknownCondition(row.unknown_instances)]
      .filter((text) => text !== "")
      .join("; "),
    agentVersion: row.agent_version,
    claims: [...claims, ...row.unknown_instances.flatMap((one) => one.gpuUuids.map(claimOfNobody))],
    createdAtMs: row.created_at.getTime(),
  };
}

const recordsCondition = ({ recordsUnavailable }: Inventory): string =>
  recordsUnavailable ? `records_unwritable: ${recordsUnavailable}` : "";

const claimOfNobody = (gpuUuid: string): GpuClaim => ({ gpuUuid, account: "" as AccountId });

const gpuType = (text: string): GpuType => (isGpuType(text) ? text : "other");
