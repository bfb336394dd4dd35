import { sql } from "kysely";
import type { HostId } from "../../../proto/ids.ts";
import type { FoundIncident, Incident, IncidentFacts, IncidentStore } from "../../oversight/store.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, interval } from "../core/time.ts";
import { moneySums } from "../money/money-sums.ts";

type Severity = FoundIncident["severity"];
const severities = ["", "info", "warning", "critical"] as const;

/** A failure older than this is no incident: its owner has left it. */
const failedShown = sql`interval '7 days'`;
/** Time in which a deployment is usually placed. */
const placedWithin = sql`interval '10 minutes'`;
/** Intervals without a scheduled backup. */
const missedBackups = 2;
const retriesBeforeFailing = 3;

export function createIncidentStore(db: Db): IncidentStore {
  return asked<IncidentStore>({
    async facts(maxEach, schedules) {
      const deployments = await sql<IncidentFacts["deployments"][number]>`
        (select d.deploy_id as id, d.model_name as name, d.account_id as account, a.email, 'failed' as trouble, d.fail_reason as reason
          from deployment d join account a using (account_id)
          where d.status = 'failed' and exists (select from event e where e.deploy_id = d.deploy_id
            and e.kind = 'deployment.failed' and e.at > now() - ${failedShown})
          order by d.deploy_id limit ${maxEach})
        union all
        (select d.deploy_id, d.model_name, d.account_id, a.email, 'crashing',
            min(concat_ws(': ', nullif(i.fail_code, ''), nullif(i.fail_message, '')))
          from instance i join deployment d using (deploy_id) join account a on a.account_id = d.account_id
          where i.tombstoned_at is null and i.fail_code <> '' and i.phase <> 'ready'
            and d.status in ('initializing', 'downloading', 'deploying', 'deployed')
          group by 1, 2, 3, 4 order by d.deploy_id limit ${maxEach})
        union all
        (select d.deploy_id, d.model_name, d.account_id, a.email, 'waiting', coalesce(d.pending_reasons->0->>'why', '')
          from deployment d join account a using (account_id)
          where d.status in ('initializing', 'downloading', 'deploying', 'deployed') and d.pending_reasons <> '[]'
            and coalesce((select max(e.at) from event e where e.deploy_id = d.deploy_id and e.kind like 'deployment.%'),
              d.created_at) < now() - ${placedWithin}
          order by d.deploy_id limit ${maxEach})
        union all
        (select d.deploy_id, d.model_name, d.account_id, a.email, 'backup', g.last_fault
          from agent_instance g join deployment d using (deploy_id) join account a on a.account_id = d.account_id
            join jsonb_to_recordset(${JSON.stringify(schedules)}::jsonb) as s (type text, "everyMs" float8) on s.type = g.agent_type
          where d.status = 'deployed'
            and coalesce(g.last_backup_at, g.started_at) < now() - make_interval(secs => ${missedBackups} * s."everyMs" / 1000)
          order by d.deploy_id limit ${maxEach})`.execute(db);
      const receivers = await sql<IncidentFacts["receivers"][number]>`
        select w.account_id as account, a.email, w.host as receiver,
          (count(*) filter (where w.state = 'pending'))::float8 as retrying,
          (count(*) filter (where w.state = 'exhausted'))::float8 as exhausted, coalesce(max(w.last_outcome), '') as outcome
        from webhook_delivery w join account a using (account_id)
        where (w.state = 'pending' and w.tries >= ${retriesBeforeFailing})
          or (w.state = 'exhausted' and w.finished_at > now() - interval '1 hour')
        group by 1, 2, 3 order by 1, 3 limit ${maxEach}`.execute(db);
      const revoked = await db.selectFrom("nodeIdentity").select("hostId").where("revokedAt", "is not", null).execute();
      const money = await sql<{ imbalance: bigint; loss: bigint; quarantined: bigint }>`select ${moneySums}`.execute(
        db,
      );
      const { rows: backups } = await sql<{ installedAt: Date | null; newestAt: Date | null; verifiedAt: Date | null }>`
        select (select min(created_at) from account) as installed_at, max(taken_at) as newest_at,
          max(verified_at) as verified_at from database_backup`.execute(db);
      const { installedAt, newestAt, verifiedAt } = backups[0] ?? {};
      const { imbalance = 0n, loss = 0n, quarantined = 0n } = money.rows[0] ?? {};
      return {
        revokedHosts: new Set<HostId>(revoked.map((row) => row.hostId)),
        deployments: deployments.rows,
        receivers: receivers.rows,
        imbalance,
        lossOfHour: loss,
        quarantined: Number(quarantined),
        backups: {
          installedAt: installedAt ?? undefined,
          newestAt: newestAt ?? undefined,
          verifiedAt: verifiedAt ?? undefined,
        },
      };
    },

    sync: (found, reopenMs) =>
      inTransaction(db, async (trx) => {
        const rows = found.map((one) => ({
          kind: one.kind,
          subject: one.subject,
          severity: severities.indexOf(one.severity),
          summary: one.summary.slice(0, 500),
          advice: one.advice,
          account_id: one.account ?? null,
          deploy_id: one.deployment ?? null,
          host_id: one.host ?? null,
          gpu_uuid: one.gpu ?? null,
        }));
        // One writer at a time: a slow one could end what a later one has opened.
        await sql`select pg_advisory_xact_lock(hashtext('stoker incidents'))`.execute(trx);
        const given = sql`jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as f (kind text, subject text, severity smallint,
          summary text, advice text, account_id text, deploy_id text, host_id text, gpu_uuid text)`;
        await sql`
          update incident i set ended_at = now() where ended_at is null
            and not exists (select from ${given} where f.kind = i.kind and f.subject = i.subject)`.execute(trx);
        await sql`
          update incident i set ended_at = null, seen_at = now(), severity = f.severity, summary = f.summary, advice = f.advice
          from ${given}
          where i.incident_id = (select o.incident_id from incident o where o.kind = f.kind and o.subject = f.subject
              order by o.ended_at desc nulls first limit 1)
            and (i.ended_at > now() - ${interval(reopenMs)} or (i.ended_at is null and
              (i.severity, i.summary, i.advice) is distinct from (f.severity, f.summary, f.advice)))`.execute(trx);
        await sql`
          insert into incident (kind, subject, severity, summary, advice, account_id, deploy_id, host_id, gpu_uuid)
          select kind, subject, severity, summary, advice, account_id, deploy_id, host_id, gpu_uuid from ${given}
          on conflict (kind, subject) where ended_at is null do nothing`.execute(trx);
      }),

    async list({ isOpen, kind, severity }, after, limit) {
      let rows = db
        .selectFrom("incident as i")
        .leftJoin("account as a", "a.accountId", "i.accountId")
        .leftJoin("deployment as d", "d.deployId", "i.deployId")
        .leftJoin("host as h", "h.hostId", "i.hostId")
        .select(["i.incidentId", "i.kind", "i.subject", "i.severity", "i.summary", "i.advice", "i.gpuUuid"])
        .select(["i.accountId", "a.email", "i.deployId", "d.modelName", "i.hostId", "h.hostname"])
        .select([epochMs("i.beganAt").as("beganAtMs"), epochMs<null>("i.endedAt").as("endedAtMs")])
        .where("i.endedAt", isOpen ? "is" : "is not", null)
        .limit(limit);
      if (kind !== undefined) rows = rows.where("i.kind", "=", kind);
      if (severity !== undefined) rows = rows.where("i.severity", "=", severities.indexOf(severity));
      const key = isOpen ? sql`(i.severity, i.incident_id)` : sql`(i.ended_at, i.incident_id)`;
      const keyOfAfter = isOpen ? sql`c.severity, c.incident_id` : sql`coalesce(c.ended_at, now()), c.incident_id`;
      if (after !== undefined)
        rows = rows.where(sql<boolean>`${key} < (select ${keyOfAfter} from incident c where c.incident_id = ${after})`);
      const ordered = isOpen ? rows.orderBy("i.severity", "desc") : rows.orderBy("i.endedAt", "desc");
      const found = await ordered.orderBy("i.incidentId", "desc").execute();
      return found.map(
        (row): Incident => ({
          id: row.incidentId,
          kind: row.kind,
          subject: row.subject,
          severity: severities[row.severity] as Severity,
          summary: row.summary,
          advice: row.advice,
          account: row.accountId === null ? null : { uid: row.accountId, email: row.email ?? row.accountId },
          deployment: row.deployId === null ? null : { id: row.deployId, name: row.modelName },
          host: row.hostId === null ? null : { id: row.hostId, name: row.hostname },
          gpu: row.gpuUuid,
          beganAtMs: row.beganAtMs,
          endedAtMs: row.endedAtMs,
        }),
      );
    },

    async countOpen() {
      const { rows } = await sql<{ severity: number; n: bigint }>`
        select severity, count(*) as n from incident where ended_at is null group by 1`.execute(db);
      const counts = { info: 0, warning: 0, critical: 0 };
      for (const { severity, n } of rows) counts[severities[severity] as Severity] = Number(n);
      return counts;
    },
  });
}
