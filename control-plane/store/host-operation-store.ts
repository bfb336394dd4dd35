// Hosts that an operator takes out of use: written here, read over every host's record.
import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { FleetAct, HostOperation, HostOperationStore, HostRecord } from "../fleet/store.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

/** Before the deadline of a drain: what still serves takes nothing new, so that what runs there can end in time. */
const lastPart = sql`least(interval '30 seconds', (deadline_at - began_at) / 2)`;

type Row = Selectable<Database["host_operation"]>;

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
          began_at: sql<Date>`now()`,
          deadline_at:
            deadlineMs === undefined ? null : sql<Date>`now() + ${deadlineMs}::float8 * interval '1 millisecond'`,
        } as const;
        await trx
          .insertInto("host_operation")
          .values({ host_id: host, ...values })
          .onConflict((at) => at.column("host_id").doUpdateSet(values))
          .execute();
        await moved(trx, host, act, `node.${kind}`, deadlineMs === undefined ? {} : { deadline_ms: deadlineMs });
        return "begun";
      }),

    end: (host, act) =>
      inTransaction(db, async (trx) => {
        const { numDeletedRows } = await trx
          .deleteFrom("host_operation")
          .where("host_id", "=", host)
          .executeTakeFirst();
        if (numDeletedRows === 0n) return false;
        await moved(trx, host, act, "node.uncordon", {});
        return true;
      }),

    async draining() {
      const rows = await db
        .selectFrom("host_operation")
        .select("host_id")
        .select(sql<number>`(extract(epoch from deadline_at - ${lastPart} - now()) * 1000)::float8`.as("due_in_ms"))
        .where("kind", "=", "drain")
        .execute();
      return new Map(rows.map((row) => [row.host_id as HostId, row.due_in_ms] as const));
    },

    async left(host) {
      const rows = await db
        .selectFrom("instance as i")
        .innerJoin("deployment as d", "d.deploy_id", "i.deploy_id")
        .select(["d.kind"])
        .where("i.host_id", "=", host)
        .execute();
      return { all: rows.length, fixed: rows.filter(({ kind }) => kind !== "model").length };
    },

    async placed() {
      const rows = await db
        .selectFrom("instance as i")
        .innerJoin("deployment as d", "d.deploy_id", "i.deploy_id")
        .select(["i.instance_id", "i.deploy_id", "i.host_id", "i.gpu_uuids", "i.account_id", "d.kind", "d.model_name"])
        .where("i.tombstoned_at", "is", null)
        .orderBy("i.instance_id")
        .execute();
      return rows.map((row) => ({
        id: row.instance_id as InstanceId,
        deployId: row.deploy_id as DeploymentId,
        modelName: row.model_name,
        account: row.account_id as AccountId,
        hostId: row.host_id as HostId,
        gpuUuids: row.gpu_uuids,
        isMovable: row.kind === "model",
      }));
    },

    remove: (host, act) =>
      inTransaction(db, async (trx) => {
        if (!(await lockHost(trx, host))) return "unknown";
        if ((await instancesOn(trx, host)) > 0) return "has_instances";
        // Its certificate brings it back no more; a token for it does.
        await trx
          .updateTable("node_identity")
          .set({ revoked_at: sql<Date>`coalesce(revoked_at, now())` })
          .where("host_id", "=", host)
          .execute();
        await trx.deleteFrom("host").where("host_id", "=", host).execute();
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
          .select("unknown_instances")
          .where("host_id", "=", host)
          .forUpdate()
          .executeTakeFirst();
        const unknown = (row?.unknown_instances ?? []).map((one) => one.instanceId as InstanceId);
        const chosen = unknown.filter((id) => only === undefined || only.includes(id));
        if (chosen.length === 0) return [];
        const ended = chosen.map((id) => ({ instance_id: id, host_id: host, seen_again_at: sql<Date>`now()` }));
        // As what had ended before and runs all the same: a tombstone that stands until the host says that it is gone.
        await trx
          .insertInto("ended_instance")
          .values(ended)
          .onConflict((at) => at.column("instance_id").doUpdateSet({ seen_again_at: sql<Date>`now()`, host_id: host }))
          .execute();
        await moved(trx, host, act, "node.end_unknown", { instances: chosen });
        return chosen;
      }),
  });
}

/** By host, for whoever reads hosts. */
export async function hostOperations(db: Kysely<Database>): Promise<ReadonlyMap<string, HostOperation>> {
  const rows = await db.selectFrom("host_operation").selectAll().execute();
  return new Map(rows.map((row) => [row.host_id, asOperation(row)]));
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
  beganAtMs: row.began_at.getTime(),
  deadlineAtMs: row.deadline_at?.getTime() ?? null,
});

async function lockHost(trx: Transaction<Database>, host: HostId): Promise<boolean> {
  const row = await trx.selectFrom("host").select("host_id").where("host_id", "=", host).forUpdate().executeTakeFirst();
  return row !== undefined;
}

async function isDraining(trx: Transaction<Database>, host: HostId): Promise<boolean> {
  const query = trx.selectFrom("host_operation").select("host_id");
  return (await query.where("host_id", "=", host).where("kind", "=", "drain").executeTakeFirst()) !== undefined;
}

async function instancesOn(trx: Transaction<Database>, host: HostId): Promise<number> {
  const row = await trx
    .selectFrom("instance")
    .select((eb) => eb.fn.countAll<bigint>().as("count"))
    .where("host_id", "=", host)
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
    .where("host_id", "=", host)
    .execute();
  await writeAudit(trx, { actor: act.by, action, subject: host, account: null, ip: act.ip, after, note: act.note });
  await announce(trx, "host", host);
}
