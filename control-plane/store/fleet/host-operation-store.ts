// Cordons and drains of hosts, and their effect on every host's record.

import { sql } from "kysely";
import type { HostId } from "../../../proto/ids.ts";
import type { Act } from "../../act.ts";
import type { HostOperation, HostOperationStore, HostRecord } from "../../fleet/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { findsRow, rowCount } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";

/** Last part of a drain: instances accept no new requests, so that running ones can finish in time. */
const lastPart = sql`least(interval '30 seconds', (deadline_at - began_at) / 2)`;

export function createHostOperationStore(db: Db): HostOperationStore {
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
          beganAt: now,
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
      return new Map(rows.map((row) => [row.hostId, row.dueInMs]));
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

    placed: () =>
      db
        .selectFrom("instance as i")
        .innerJoin("deployment as d", "d.deployId", "i.deployId")
        .innerJoin("account as a", "a.accountId", "i.accountId")
        .select(["i.instanceId as id", "i.deployId", "i.hostId", "i.gpuUuids", "i.accountId as account", "d.modelName"])
        .select(["d.kind", "a.email"])
        .select(sql<boolean>`d.kind = 'model'`.as("isMovable"))
        .where("i.tombstonedAt", "is", null)
        .orderBy("i.instanceId")
        .execute(),

    remove: (host, act) =>
      inTransaction(db, async (trx) => {
        if (!(await lockHost(trx, host))) return "unknown";
        if ((await instancesOn(trx, host)) > 0) return "has_instances";
        // Its certificate is no longer accepted; a token for it admits it again.
        await trx
          .updateTable("nodeIdentity")
          .set({ revokedAt: sql<Date>`coalesce(revoked_at, now())` })
          .where("hostId", "=", host)
          .execute();
        await trx.deleteFrom("host").where("hostId", "=", host).execute();
        await auditAct(trx, act, { action: "node.remove", subject: host, account: null });
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
        const unknown = (row?.unknownInstances ?? []).map((one) => one.instanceId);
        const chosen = unknown.filter((id) => only === undefined || only.includes(id));
        if (chosen.length === 0) return [];
        const ended = chosen.map((id) => ({ instanceId: id, hostId: host, seenAgainAt: now }));
        // Like ended instances that are observed again: a tombstone until the host confirms the removal.
        await trx
          .insertInto("endedInstance")
          .values(ended)
          .onConflict((at) => at.column("instanceId").doUpdateSet({ seenAgainAt: now, hostId: host }))
          .execute();
        await moved(trx, host, act, "node.end_unknown", { instances: chosen });
        return chosen;
      }),
  });
}

export async function hostOperations(db: Db): Promise<ReadonlyMap<HostId, HostOperation>> {
  const rows = await db
    .selectFrom("hostOperation")
    .select(["hostId", "kind", "note", "instances"])
    .select([epochMs("beganAt").as("beganAtMs"), epochMs<null>("deadlineAt").as("deadlineAtMs")])
    .execute();
  return new Map(rows.map(({ hostId, ...operation }) => [hostId, operation]));
}

/** Returns the record with the operation applied: nothing new is placed on a cordoned or draining host. */
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

async function lockHost(trx: Trx, host: HostId): Promise<boolean> {
  return trx.selectFrom("host").select("hostId").where("hostId", "=", host).forUpdate().$call(findsRow);
}

async function isDraining(trx: Trx, host: HostId): Promise<boolean> {
  const query = trx.selectFrom("hostOperation").select("hostId");
  return (await query.where("hostId", "=", host).where("kind", "=", "drain").executeTakeFirst()) !== undefined;
}

async function instancesOn(trx: Trx, host: HostId): Promise<number> {
  const row = await trx.selectFrom("instance").select(rowCount).where("hostId", "=", host).executeTakeFirstOrThrow();
  return row.count;
}

/** Invalidates placements that read the host before, notifies the host, and audits the act. */
async function moved(trx: Trx, host: HostId, act: Act, action: string, after: object): Promise<void> {
  await trx
    .updateTable("host")
    .set((eb) => ({ revision: eb("revision", "+", 1n), generation: eb("generation", "+", 1n) }))
    .where("hostId", "=", host)
    .execute();
  await auditAct(trx, act, { action, subject: host, account: null, after });
  await announce(trx, "host", host);
}
