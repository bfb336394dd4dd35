import { sql } from "kysely";
import type { HostId } from "../../../proto/ids.ts";
import type { QuarantineStore } from "../../billing/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { rowCount } from "../core/rows.ts";
import type { Db } from "../core/schema.ts";
import { now } from "../core/time.ts";

export function createQuarantineStore(db: Db): QuarantineStore {
  return asked<QuarantineStore>({
    quarantine: (host, nodeEpoch, records, maxOpen, uncounted) =>
      inTransaction(db, async (trx) => {
        // Locks the host's row: two control planes must not both fill the rest of its space.
        await sql`insert into usage_quarantine_host (host_id, dropped) values (${host}, 0)
          on conflict (host_id) do update set host_id = excluded.host_id`.execute(trx);
        const { count } = await trx
          .selectFrom("usageQuarantine")
          .select(rowCount)
          .where("hostId", "=", host)
          .where("resolvedAt", "is", null)
          .executeTakeFirstOrThrow();
        const kept = records.slice(0, Math.max(0, maxOpen - count));
        if (kept.length > 0)
          await trx
            .insertInto("usageQuarantine")
            .values(
              kept.map((one) => ({
                requestId: withoutNul(one.requestId),
                attempt: Math.max(-1, Math.min(one.attempt, 2 ** 31 - 1)),
                hostId: host,
                nodeEpoch: nodeEpoch,
                problem: one.problem,
                why: withoutNul(one.why),
                record: one.record,
              })),
            )
            .onConflict((conflict) => conflict.doNothing())
            .execute();
        const dropped = records.length - kept.length;
        if (dropped + uncounted > 0)
          await trx
            .updateTable("usageQuarantineHost")
            .set((eb) => ({ dropped: eb("dropped", "+", BigInt(dropped + uncounted)) }))
            .where("hostId", "=", host)
            .execute();
        return dropped;
      }),

    async quarantined({ host }, after, limit) {
      let query = db
        .selectFrom("usageQuarantine")
        .select(columns)
        .where("resolvedAt", "is", null)
        .where("quarantineId", ">", after);
      if (host !== undefined) query = query.where("hostId", "=", host);
      return query.orderBy("quarantineId").limit(limit).execute();
    },

    findQuarantined: (id) =>
      db
        .selectFrom("usageQuarantine")
        .select(columns)
        .where("quarantineId", "=", id)
        .where("resolvedAt", "is", null)
        .executeTakeFirst(),

    async quarantineHosts() {
      const { rows } = await sql<{ hostId: HostId; open: bigint; dropped: bigint }>`
        select host_id, coalesce(open, 0) as open, coalesce(dropped, 0) as dropped from (
          select host_id, count(*) as open from usage_quarantine where resolved_at is null group by 1) o
        full join usage_quarantine_host using (host_id)
        where open > 0 or dropped > 0 order by host_id`.execute(db);
      return rows.map((row) => ({ host: row.hostId, open: Number(row.open), dropped: Number(row.dropped) }));
    },

    resolve: (id, how, act) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .updateTable("usageQuarantine")
          .set({ resolvedAt: now, resolution: how })
          .where("quarantineId", "=", id)
          .where("resolvedAt", "is", null)
          .returning(["hostId", "requestId", "attempt", "problem"])
          .executeTakeFirst();
        if (!row) return false;
        await auditAct(trx, act, {
          action: how === "released" ? "usage.quarantine_release" : "usage.quarantine_discard",
          subject: `${row.requestId}/${row.attempt}`,
          account: null,
          after: { quarantine_id: String(id), host: row.hostId, problem: row.problem },
        });
        return true;
      }),

    discardHost: (host, act) =>
      inTransaction(db, async (trx) => {
        const counter = await trx
          .deleteFrom("usageQuarantineHost")
          .where("hostId", "=", host)
          .returning("dropped")
          .executeTakeFirst();
        const { numUpdatedRows } = await trx
          .updateTable("usageQuarantine")
          .set({ resolvedAt: now, resolution: "discarded" })
          .where("hostId", "=", host)
          .where("resolvedAt", "is", null)
          .executeTakeFirstOrThrow();
        const records = Number(numUpdatedRows);
        if (records > 0 || counter)
          await auditAct(trx, act, {
            action: "usage.quarantine_discard",
            subject: host,
            account: null,
            after: { records, dropped: String(counter?.dropped ?? 0n) },
          });
        return records;
      }),
  });
}

/** PostgreSQL's text holds every character but this one; a host chose these texts. */
const withoutNul = (text: string): string => text.replaceAll("\0", "");

/** Columns of a Quarantined. */
const columns = [
  ...(["quarantineId as id", "hostId as host", "nodeEpoch", "requestId", "attempt"] as const),
  ...(["problem", "why", "record", "at"] as const),
] as const;
