import { sql } from "kysely";
import { type HostId, randomId } from "../../../proto/ids.ts";
import { steadyTime } from "../../../proto/steady-time.ts";
import type { ReconcileReport, ReconcileStore } from "../../fleet/store.ts";
import { inTransaction } from "../core/database.ts";
import { asked, codeOf } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";

/** Maximum count that one host can report: the sum over all hosts stays within 64 bits. */
const maxCount = 1_000_000_000n;
const plausible = (count: bigint): bigint => (count > maxCount ? maxCount : count < 0n ? 0n : count);

/** Marks older than this are deleted; the mark of an agent that was offline for longer is ignored. */
const markRetention = sql`interval '7 days'`;

export function createReconcileStore(db: Db): ReconcileStore {
  return asked<ReconcileStore>({
    async sawIdentity() {
      const now = await identityOf(db);
      if (!now) return false;
      return inTransaction(db, async (trx) => {
        const before = await trx.selectFrom("databaseIdentity").selectAll().forUpdate().executeTakeFirst();
        await trx
          .insertInto("databaseIdentity")
          .values({ isOnly: true, ...now })
          .onConflict((at) => at.column("isOnly").doUpdateSet(now))
          .execute();
        return (
          before !== undefined && (before.systemIdentifier !== now.systemIdentifier || before.timeline !== now.timeline)
        );
      });
    },

    async lastMarkAtMs() {
      const { rows } = await sql<{ at: Date | null }>`select max(made_at) as at from restore_mark`.execute(db);
      return rows[0]?.at?.getTime();
    },

    mark: (everyMs, isForced) =>
      inTransaction(db, async (trx) => {
        // Serialised, because control planes share the sequence.
        await sql`select pg_advisory_xact_lock(hashtext('restore_mark'))`.execute(trx);
        const { rows } = await sql<{ seq: bigint; mark: string; isOld: boolean }>`
          select seq, mark, made_at < now() - ${everyMs} * interval '1 millisecond' as is_old
          from restore_mark order by seq desc limit 1`.execute(trx);
        const last = rows[0];
        if (last && !last.isOld && !isForced) return `${last.seq}:${last.mark}`;
        const next = { seq: (last?.seq ?? 0n) + 1n, mark: randomId<"mark">(16) };
        await trx.insertInto("restoreMark").values(next).execute();
        await sql`delete from restore_mark where made_at < now() - ${markRetention}`.execute(trx);
        return `${next.seq}:${next.mark}`;
      }),

    async isKnownMark(text) {
      const found = /^(\d{1,18}):([\w-]{1,64})$/.exec(text);
      if (!found) return true;
      const { rows } = await sql<{ isKnown: boolean }>`
        select exists (select from restore_mark where seq = ${found[1]}::bigint and mark = ${found[2]})
          or ${found[1]}::bigint < (select min(seq) from restore_mark) as is_known`.execute(db);
      return rows[0]?.isKnown ?? true;
    },

    begin: (cause, lastsMs, backupAtMs, shown) =>
      inTransaction(db, async (trx) => {
        if (shown) {
          // Also while one is open: it covers this sign, which the host repeats until it is adopted.
          const { rows } = await sql`
            insert into reconcile_sign as known (host_id, sign) values (${shown.host}, ${shown.sign})
            on conflict (host_id) do update set sign = excluded.sign, opened_at = now()
            where known.sign <> excluded.sign and known.opened_at < now() - ${lastsMs} * interval '1 millisecond'
            returning host_id`.execute(trx);
          if (rows.length === 0) return false;
        }
        return openReconcile(trx, { cause, lastsMs, backupAtMs });
      }),

    async open() {
      const row = await db.selectFrom("reconcile").selectAll().where("endedAt", "is", null).executeTakeFirst();
      return row && { id: row.reconcileId, cause: row.cause, beganAtMs: row.beganAt.getTime() };
    },

    async list(limit) {
      const { rows } = await sql<{
        reconcileId: string;
        cause: string;
        beganAt: Date;
        endsBy: Date;
        endedAt: Date | null;
        awaited: { host: HostId; name: string }[];
        report: ReconcileReport | null;
      }>`
        select r.reconcile_id, r.cause, r.began_at, r.ends_by, r.ended_at, r.report,
          case when r.ended_at is not null then '[]'::jsonb else coalesce(
            (select jsonb_agg(jsonb_build_object('host', h.host_id, 'name', h.hostname) order by h.hostname, h.host_id)
              from host h where not exists (select from reconcile_host d
                where d.reconcile_id = r.reconcile_id and d.host_id = h.host_id and d.is_done)), '[]'::jsonb) end as awaited
        from reconcile r order by r.began_at desc limit ${limit}`.execute(db);
      return rows.map((row) => ({
        id: row.reconcileId,
        cause: row.cause,
        beganAt: row.beganAt,
        endsBy: row.endsBy,
        endedAt: row.endedAt ?? undefined,
        awaited: row.awaited,
        report: row.report ?? undefined,
      }));
    },

    async sawResend(host, { reconcileId, records, dropped, droppedThroughMs, isDone }) {
      await sql`
        insert into reconcile_host (reconcile_id, host_id, records, dropped, dropped_through, is_done)
        select reconcile_id, ${host}, ${plausible(records)}::bigint, ${plausible(dropped)}::bigint,
          ${droppedThroughMs > 0 ? new Date(Math.min(droppedThroughMs, steadyTime.nowMs())) : null}::timestamptz, ${isDone}
        from reconcile where reconcile_id = ${reconcileId} and ended_at is null
        on conflict (reconcile_id, host_id) do update set is_done = excluded.is_done
        where reconcile_host.is_done <> excluded.is_done`.execute(db);
    },

    endIfDone: () =>
      inTransaction(db, async (trx) => {
        const { rows } = await sql<OpenReconcile>`
          select r.reconcile_id, r.cause, r.began_at, r.ends_by < now() as is_over,
            (select count(*)::int from host) as hosts,
            (select array_agg(host_id) from host h where not exists (select from reconcile_host d
              where d.reconcile_id = r.reconcile_id and d.host_id = h.host_id and d.is_done)) as missing,
            coalesce((select sum(records) from reconcile_host d where d.reconcile_id = r.reconcile_id), 0)::bigint as resent,
            coalesce((select sum(dropped) from reconcile_host d where d.reconcile_id = r.reconcile_id
              and d.dropped_through > coalesce(r.backup_at, r.began_at)), 0)::bigint as lost
          from reconcile r where r.ended_at is null for update`.execute(trx);
        const open = rows[0];
        if (!open || (open.missing !== null && !open.isOver)) return undefined;
        const report = await reportOf(trx, open);
        await sql`update reconcile set ended_at = now(), report = ${JSON.stringify(report)}::jsonb
          where reconcile_id = ${open.reconcileId}`.execute(trx);
        return report;
      }),
  });
}

interface OpenReconcile {
  reconcileId: string;
  cause: string;
  beganAt: Date;
  isOver: boolean;
  hosts: number;
  missing: string[] | null;
  resent: bigint;
  lost: bigint;
}

async function reportOf(trx: Trx, open: OpenReconcile): Promise<ReconcileReport> {
  const { rows: found } = await sql<{ n: number; charge: bigint }>`
          select count(*)::int as n, coalesce(sum(charge), 0)::bigint as charge from usage
          where settled_at >= ${open.beganAt} and ended_at < ${open.beganAt}`.execute(trx);
  return {
    cause: open.cause,
    hosts: open.hosts,
    missingHosts: open.missing ?? [],
    resent: Number(open.resent),
    recovered: found[0]?.n ?? 0,
    recoveredCharge: String(found[0]?.charge ?? 0n),
    lostAtMost: Number(open.lost),
  };
}

/** Returns false if one is open. */
export async function openReconcile(
  trx: Trx,
  {
    cause,
    lastsMs,
    backupAtMs,
  }: { readonly cause: string; readonly lastsMs: number; readonly backupAtMs: number | undefined },
): Promise<boolean> {
  const { rows } = await sql`
  insert into reconcile (reconcile_id, cause, ends_by, backup_at)
  values (${randomId<"reconcile">(16)}, ${cause}, now() + ${lastsMs} * interval '1 millisecond',
    ${backupAtMs === undefined ? null : new Date(backupAtMs)}::timestamptz)
  on conflict do nothing returning reconcile_id`.execute(trx);
  return rows.length > 0;
}

/** Undefined if this role may not read it, as on some hosted databases; marks and epochs detect a restore there. */
async function identityOf(db: Db) {
  try {
    const { rows } = await sql<{ systemIdentifier: string; timeline: number }>`
    select (select system_identifier::text from pg_control_system()) as system_identifier,
      (select timeline_id from pg_control_checkpoint()) as timeline`.execute(db);
    return rows[0];
  } catch (error) {
    if (codeOf(error) === "42501") return undefined;
    throw error;
  }
}
