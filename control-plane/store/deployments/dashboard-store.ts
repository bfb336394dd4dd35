import { sql } from "kysely";
import type { DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import type { MemberRole } from "../../accounts/store.ts";
import type { DashboardRow, DashboardStore } from "../../agent-instances/store.ts";
import { writeAudit } from "../accounts/audit-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { interval } from "../core/time.ts";

const sweptAtOnce = 1_000;

/** True for running instances `d` of accounts `c` in good standing. */
const mayOpen = sql<boolean>`d.kind = 'agent_instance' and d.status in ('deployed', 'updating')
  and c.account_id = d.account_id and c.deleted_at is null and c.suspend_reason is null`;

/** `changers`: roles of members that may open dashboards. */
export function createDashboardStore(db: Db, changers: readonly MemberRole[]): DashboardStore {
  return asked<DashboardStore>({
    launch: ({ hash, id, account, forMs }, maxVisits, { ip, key, login, member, by }) =>
      inTransaction(db, async (trx) => {
        const { numAffectedRows } = await sql`
          insert into dashboard_visit (visit_hash, deploy_id, account_id, key_id, login, member_id, expires_at)
          select ${hash}, d.deploy_id, d.account_id, ${key ?? null}::text, ${login ?? null}::bytea, ${member ?? null}::text, now() + ${interval(forMs)}
          from deployment d, account c
          where d.deploy_id = ${id} and d.account_id = ${account} and ${mayOpen}`.execute(trx);
        if (numAffectedRows !== 1n) return false;
        await sql`
          delete from dashboard_visit where visit_hash in (
            select visit_hash from dashboard_visit where deploy_id = ${id}
            order by created_at desc, visit_hash offset ${maxVisits})`.execute(trx);
        await writeAudit(trx, { actor: by ?? account, action: "agent_instance.launch", subject: id, account, ip });
        return true;
      }),

    async enter(token, cookie, forMs) {
      const { rows } = await sql<{ deployId: DeploymentId }>`
        update dashboard_visit v set visit_hash = ${cookie}, is_open = true, expires_at = now() + ${interval(forMs)}
        from deployment d, account c
        where v.visit_hash = ${token} and not v.is_open and v.expires_at > now()
          and d.deploy_id = v.deploy_id and d.account_id = v.account_id and ${mayOpen}
        returning v.deploy_id`.execute(db);
      return rows[0]?.deployId;
    },

    async visit(cookie): Promise<DashboardRow | undefined> {
      const { rows } = await sql<{
        id: DeploymentId;
        status: DashboardRow["status"];
        instance: InstanceId | null;
        host: HostId | null;
      }>`
        select v.deploy_id as id, d.status, i.instance_id as instance, i.host_id as host
        from dashboard_visit v
          join deployment d on d.deploy_id = v.deploy_id and d.account_id = v.account_id
          join account c on c.account_id = v.account_id
          left join instance i on i.deploy_id = d.deploy_id and i.phase = 'ready' and i.tombstoned_at is null
            and exists (select from host h where h.host_id = i.host_id and h.schedulable)
            and not exists (select from node_identity n where n.host_id = i.host_id and n.revoked_at is not null)
        where v.visit_hash = ${cookie} and v.is_open and v.expires_at > now()
          and (v.key_id is null or exists (
            select from api_key k where k.token_id = v.key_id and k.account_id = v.account_id and k.revoked_at is null))
          and (v.login is null or exists (select from login_session s where s.lookup = v.login and s.expires_at > now()))
          and (v.member_id is null or exists (
            select from member m where m.member_id = v.member_id and m.role = any(${changers})))
          and d.status <> 'deleted' and c.deleted_at is null and c.suspend_reason is null
        order by i.created_at desc nulls last limit 1`.execute(db);
      const [row] = rows;
      if (!row) return undefined;
      const { id, status, instance, host } = row;
      return { id, status, at: instance === null || host === null ? undefined : { instance, host } };
    },

    async sweep() {
      await sql`
        delete from dashboard_visit where visit_hash in (
          select visit_hash from dashboard_visit where expires_at < now()
          limit ${sweptAtOnce} for update skip locked)`.execute(db);
    },
  });
}
