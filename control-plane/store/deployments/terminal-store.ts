import { sql } from "kysely";
import type { AccountId, DeploymentId, HostId, InstanceId, KeyId } from "../../../proto/ids.ts";
import type { MemberRole } from "../../accounts/store.ts";
import type { TerminalKind, TerminalState, TerminalStore } from "../../terminals/store.ts";
import { writeAudit } from "../accounts/audit-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { interval } from "../core/time.ts";

const sweptAtOnce = 1_000;

/** True for a row `t` whose credential, member and account still allow it. */
const inForce = (changers: readonly MemberRole[]) => sql<boolean>`
  (t.key_id is null or exists (
    select from api_key k where k.token_id = t.key_id and k.account_id = t.account_id and k.revoked_at is null and k.role = 'admin'
      and (k.expires_at is null or k.expires_at > now())))
  and (t.login is null or exists (select from login_session s where s.lookup = t.login and s.expires_at > now()))
  and (t.member_id is null or exists (select from member m where m.member_id = t.member_id and m.role = any(${changers})))
  and exists (select from account c where c.account_id = t.account_id and c.deleted_at is null and c.suspend_reason is null)`;

/** The member on whose behalf a row `t` exists, or its account. */
const actorOf = sql<string>`coalesce(
  (select coalesce(m.person_id, m.member_id) from member m where m.member_id = t.member_id), t.member_id, t.account_id)`;

interface Ended {
  readonly actor: string;
  readonly id: DeploymentId;
  readonly account: AccountId;
  readonly ip: string;
  readonly seconds: number;
}

async function auditEnd(trx: Trx, ended: Ended, reason: string): Promise<void> {
  const { actor, id, account, ip, seconds } = ended;
  await writeAudit(trx, {
    actor,
    action: "terminal.close",
    subject: id,
    account,
    ip,
    after: { seconds, reason },
  });
}

/** `changers`: roles of members that may open terminals. */
export function createTerminalStore(db: Db, changers: readonly MemberRole[]): TerminalStore {
  const isInForce = inForce(changers);
  return asked<TerminalStore>({
    async find({ id, kind, account }): Promise<TerminalState | undefined> {
      const { rows } = await sql<{
        status: TerminalState["status"];
        instance: InstanceId | null;
        host: HostId | null;
        isReachable: boolean | null;
        isAllowed: boolean | null;
      }>`
        select d.status, i.instance_id as instance, i.host_id as host, h.schedulable as "isReachable",
          (h.inventory->'containers'->>'terminals')::boolean as "isAllowed"
        from deployment d
          left join instance i on i.deploy_id = d.deploy_id and i.phase in ('loading', 'ready') and i.tombstoned_at is null
            and not exists (select from node_identity n where n.host_id = i.host_id and n.revoked_at is not null)
          left join host h on h.host_id = i.host_id
        where d.deploy_id = ${id} and d.account_id = ${account} and d.kind = ${kind} and d.status <> 'deleted'
        order by i.created_at desc nulls last limit 1`.execute(db);
      const [row] = rows;
      if (!row) return undefined;
      const { status, instance, host } = row;
      if (instance === null || host === null) return { status, at: undefined };
      const at = { instance, host, isReachable: row.isReachable === true, isAllowed: row.isAllowed === true };
      return { status, at };
    },

    issue: (ticket, { id, account }, { ip, key, login, member }, forMs, max) =>
      inTransaction(db, async (trx) => {
        await sql`
          insert into terminal (ticket_hash, deploy_id, account_id, key_id, login, member_id, ip, expires_at)
          values (${ticket}, ${id}, ${account}, ${key ?? null}, ${login ?? null}, ${member ?? null}, ${ip}, now() + ${interval(forMs)})`.execute(
          trx,
        );
        await sql`
          delete from terminal where ticket_hash in (
            select ticket_hash from terminal where account_id = ${account} and opened_at is null
            order by created_at desc, ticket_hash offset ${max})`.execute(trx);
      }),

    open: (ticket, { max, forMs }, ip) =>
      inTransaction(db, async (trx) => {
        const { rows } = await sql<{
          id: DeploymentId;
          account: AccountId;
          kind: TerminalKind;
          key: KeyId | null;
          actor: string;
        }>`
          select ${actorOf} as actor, t.deploy_id as id, t.account_id as account, d.kind, t.key_id as key
          from terminal t join deployment d on d.deploy_id = t.deploy_id
          where t.ticket_hash = ${ticket} and t.opened_at is null and t.expires_at > now() and ${isInForce}
          for no key update of t`.execute(trx);
        const [found] = rows;
        if (!found) return undefined;
        const { actor, ...opened } = found;
        const { id, account } = opened;
        await sql`select pg_advisory_xact_lock(hashtextextended(${`terminals/${account}`}, 0))`.execute(trx);
        const { numAffectedRows } = await sql`
          update terminal set opened_at = now(), ip = ${ip}, expires_at = now() + ${interval(forMs)}
          where ticket_hash = ${ticket} and (
            select count(*) from terminal o
            where o.account_id = ${account} and o.opened_at is not null and o.expires_at > now()) < ${max}`.execute(
          trx,
        );
        if (numAffectedRows !== 1n) return "too_many";
        await writeAudit(trx, { actor, action: "terminal.open", subject: id, account, ip });
        return { ...opened, key: opened.key ?? undefined };
      }),

    async renew(ticket, forMs) {
      const { numAffectedRows } = await sql`
        update terminal t set expires_at = now() + ${interval(forMs)}
        where t.ticket_hash = ${ticket} and t.opened_at is not null and ${isInForce}
          and exists (select from deployment d where d.deploy_id = t.deploy_id
            and d.status not in ('deleted', 'stopping', 'stopped', 'failed'))`.execute(db);
      return numAffectedRows === 1n;
    },

    close: (ticket, reason) =>
      inTransaction(db, async (trx) => {
        const { rows } = await sql<Ended>`
          delete from terminal t where ticket_hash = ${ticket} and opened_at is not null
          returning ${actorOf} as actor, deploy_id as id, account_id as account, ip,
            round(extract(epoch from now() - opened_at))::float8 as seconds`.execute(trx);
        for (const ended of rows) await auditEnd(trx, ended, reason);
      }),

    sweep: () =>
      inTransaction(db, async (trx) => {
        const { rows } = await sql<Ended & { isOpen: boolean }>`
          delete from terminal t where ticket_hash in (
            select ticket_hash from terminal where expires_at < now() limit ${sweptAtOnce} for update skip locked)
          returning ${actorOf} as actor, deploy_id as id, account_id as account, ip, opened_at is not null as "isOpen",
            coalesce(round(extract(epoch from expires_at - opened_at)), 0)::float8 as seconds`.execute(trx);
        for (const ended of rows) if (ended.isOpen) await auditEnd(trx, ended, "control plane ended");
      }),
  });
}
