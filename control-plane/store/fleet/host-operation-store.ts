// Hosts that an operator takes out of use: written here, read over every host's record.
import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import type { FleetAct, HostOperation, HostOperationStore, HostRecord } from "../../fleet/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { writeAudit } from "../people/audit-rows.ts";

/** Before the deadline of a drain: what still serves takes nothing new, so that what runs there can end in time. */
const lastPart = sql`least(interval '30 seconds', (deadline_at - began_at) / 2)`;

type Row = Selectable<Database["hostOperation"]>;

export function createHostOperationStore(db: Kysely<Database>): HostOperationStore {
  return asked<HostOperationStore>({
    begin: ({ host, deadlineMs }, act) =>
      inTransaction(db, async (trx) => {
        if (!(await lockHost(trx, host))) return "unknown";
        if (deadlineMs === undefined && (await isDraining(trx, host))) return "draining";
        const kind = deadlineMs === undefined ? "cordon" : "drain";
        const values = {
          kind,
          note: act.note,
          instances: deadlineMs === undefined ? 0 : await instancesOn(trx, host),
          beganAt: sql<Date>`now()`,
          deadlineAt:
            deadlineMs === undefined ? null : sql<Date>`now() + ${deadlineMs}::float8 * interval '1 millisecond'`,
        } as const;
        await trx
          .insertInto("hostOperation")
          .values({ hostId: host, ...values })
          .onConflict((at) => at.column("hostId").doUpdateSet(values))
          .execute();
        await moved(trx, host, act, `node.${kind}`, deadlineMs === undefined ? {} : { deadline_ms: deadlineMs });
        return "begun";
      }),

    end: (host, act) =>
      inTransaction(db, async (trx) => {
        const { numDeletedRows } = await trx.deleteFrom("hostOperation").where("hostId", "=", host).executeTakeFirst();
        if (numDeletedRows === 0n) return false;
        await moved(trx, host, act, "node.uncordon", {});
        return true;
      }),

    async draining() {
      const rows = await db
        .selectFrom("hostOperation")
        .select("hostId")
        .select(sql<number>`(extract(epoch from deadline_at - ${lastPart} - now()) * 1000)::float8`.as("dueInMs"))
        .where("kind", "=", "drain")
        .execute();
      return new Map(rows.map((row) => [row.hostId as HostId, row.dueInMs] as const));
    },

    async left(host) {
      const rows = await db
        .selectFrom("instance as i")
        .innerJoin("deployment as d", "d.deployId", "i.deployId")
        .select(["d.kind"])
        .where("i.hostId", "=", host)
        .execute();
      return { all: rows.length, fixed: rows.filter(({ kind }) => kind !== "model").length };
    },

    async placed() {
      const rows = await db
        .selectFrom("instance as i")
        .innerJoin("deployment as d", "d.deployId", "i.deployId")
        .select(["i.instanceId", "i.deployId", "i.hostId", "i.gpuUuids", "i.accountId", "d.kind", "d.modelName"])
        .where("i.tombstonedAt", "is", null)
        .orderBy("i.instanceId")
        .execute();
      return rows.map((row) => ({
        id: row.instanceId as InstanceId,
        deployId: row.deployId as DeploymentId,
        modelName: row.modelName,
        account: row.accountId as AccountId,
        hostId: row.hostId as HostId,
        gpuUuids: row.gpuUuids,
        isMovable: row.kind === "model",
      }));
    },

    remove: (host, act) =>
      inTransaction(db, async (trx) => {
        if (!(await lockHost(trx, host))) return "unknown";
        if ((await instancesOn(trx, host)) > 0) return "has_instances";
        // Its certificate brings it back no more; a token for it does.
        await trx
          .updateTable("nodeIdentity")
          .set({ revokedAt: sql<Date>`coalesce(revoked_at, now())` })
          .where("hostId", "=", host)
          .execute();
        await trx.deleteFrom("host").where("hostId", "=", host).execute();
        await writeAudit(trx, {
          actor: act.by,
          action: "node.remove",
          subject: host,
          account: null,
          ip: act.ip,
          note: act.note,
        });
        await announce(trx, "host", host);
        return "removed";
      }),

    endUnknown: (host, only, act) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom("host")
          .select("unknownInstances")
          .where("hostId", "=", host)
          .forUpdate()
          .executeTakeFirst();
        const unknown = (row?.unknownInstances ?? []).map((one) => one.instanceId as InstanceId);
        const chosen = unknown.filter((id) => only === undefined || only.includes(id));
        if (chosen.length === 0) return [];
        const ended = chosen.map((id) => ({ instanceId: id, hostId: host, seenAgainAt: sql<Date>`now()` }));
        // As what had ended before and runs all the same: a tombstone that stands until the host says that it is gone.
        await trx
          .insertInto("endedInstance")
          .values(ended)
          .onConflict((at) => at.column("instanceId").doUpdateSet({ seenAgainAt: sql<Date>`now()`, hostId: host }))
          .execute();
        await moved(trx, host, act, "node.end_unknown", { instances: chosen });
        return chosen;
      }),
  });
}

/** By host, for whoever reads hosts. */
export async function hostOperations(db: Kysely<Database>): Promise<ReadonlyMap<string, HostOperation>> {
  const rows = await db.selectFrom("hostOperation").selectAll().execute();
  return new Map(rows.map((row) => [row.hostId, asOperation(row)]));
}

/** The record as placement may believe it: nothing new goes onto a host that is taken out of use. */
export function withOperation<Host extends Pick<HostRecord, "condition" | "schedulable">>(
  host: Host,
  operation: HostOperation | undefined,
): Host & Pick<HostRecord, "operation"> {
  if (!operation) return host;
  const why = operation.note === "" ? "by an operator" : `by an operator: ${operation.note}`;
  const said =
    operation.kind === "drain" ? `draining: it is being emptied ${why}` : `cordoned: taken out of use ${why}`;
  const condition = [host.condition, said].filter((text) => text !== "").join("; ");
  return { ...host, schedulable: false, condition, operation };
}

const asOperation = (row: Row): HostOperation => ({
  kind: row.kind,
  note: row.note,
  instances: row.instances,
  beganAtMs: row.beganAt.getTime(),
  deadlineAtMs: row.deadlineAt?.getTime() ?? null,
});

async function lockHost(trx: Transaction<Database>, host: HostId): Promise<boolean> {
  const row = await trx.selectFrom("host").select("hostId").where("hostId", "=", host).forUpdate().executeTakeFirst();
  return row !== undefined;
}

async function isDraining(trx: Transaction<Database>, host: HostId): Promise<boolean> {
  const query = trx.selectFrom("hostOperation").select("hostId");
  return (await query.where("hostId", "=", host).where("kind", "=", "drain").executeTakeFirst()) !== undefined;
}

async function instancesOn(trx: Transaction<Database>, host: HostId): Promise<number> {
  const row = await trx
    .selectFrom("instance")
    .select((eb) => eb.fn.countAll<bigint>().as("count"))
    .where("hostId", "=", host)
    .executeTakeFirstOrThrow();
  return Number(row.count);
}

/** A placement that saw the host before loses its race; the host hears by when it is to be empty. */
async function moved(
  trx: Transaction<Database>,
  host: HostId,
  act: FleetAct,
  action: string,
  after: object,
): Promise<void> {
  await trx
    .updateTable("host")
    .set((eb) => ({ revision: eb("revision", "+", 1n), generation: eb("generation", "+", 1n) }))
    .where("hostId", "=", host)
    .execute();
  await writeAudit(trx, { actor: act.by, action, subject: host, account: null, ip: act.ip, after, note: act.note });
  await announce(trx, "host", host);
}
