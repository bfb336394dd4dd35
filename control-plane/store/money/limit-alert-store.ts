import { sql } from "kysely";
import type { AccountId, KeyId, ProjectId } from "../../../proto/ids.ts";
import type { AlertSubject, LimitAlert, LimitAlertStore, RaisedAlert } from "../../billing/store.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { queueMail } from "../work/mail-store.ts";
import { queueEvent } from "../work/webhook-events.ts";

interface AlertRow {
  readonly budgetId: string;
  readonly account: AccountId;
  readonly keyId: KeyId | null;
  readonly projectId: ProjectId | null;
  readonly name: string | null;
  readonly percent: number;
  readonly limit: bigint;
  readonly spent: bigint;
  readonly atMs: number;
}

interface NewAlertRow extends AlertRow {
  readonly url: string | null;
  readonly host: string | null;
  readonly isMailed: boolean;
}

export function createLimitAlertStore(db: Db): LimitAlertStore {
  return asked<LimitAlertStore>({
    raise: ({ month, percents, max, callOf, mailOf }) =>
      inTransaction(db, async (trx) => {
        const suffix = `/${Math.floor(month / 12)}${String((month % 12) + 1).padStart(2, "0")}`;
        const { rows } = await sql<NewAlertRow>`
          with limited as (
            select 'account-month/' || account_id || ${suffix} as budget_id, null as key_id, null as project_id from account
              where monthly_limit > 0 and deleted_at is null
            union all select 'key/' || token_id || ${suffix}, token_id, null from api_key
              where monthly_limit > 0 and revoked_at is null
            union all select 'project/' || project_id || ${suffix}, null, project_id from project
              where monthly_limit > 0 and ended_at is null
          ), due as (
            select budget_id, percent, lim, account_id, key_id, project_id, spent
            from limited join budget b using (budget_id), unnest(${[...percents]}::smallint[]) percent
            where lim > 0 and spent::numeric * 1000 >= lim::numeric * (percent * 10 - 5)
              and not exists (select from limit_alert a
                where a.budget_id = b.budget_id and a.percent = percent.percent and a.lim = b.lim)
            order by budget_id, percent limit ${max}
          ), raised as (
            insert into limit_alert (budget_id, percent, lim, account_id, key_id, project_id, spent) select * from due
            on conflict do nothing returning *
          )
          select r.budget_id, r.account_id as account, r.key_id, r.project_id, ${subjectName}, r.percent, r.lim as "limit", r.spent,
            ${epochMs("at")} as at_ms, alert_url as url, alert_host as host,
            coalesce(alert_mail, true) as is_mailed
          from raised r left join account_billing using (account_id)
            left join api_key k on k.token_id = r.key_id left join project p on p.project_id = r.project_id
          order by r.budget_id, r.percent`.execute(trx);
        for (const row of rows) {
          const { account, url, host, budgetId, percent } = row;
          const alert = alertOf(row);
          const call = url !== null && host !== null ? { url, host, ...callOf(alert) } : undefined;
          if (call) await queueEvent(trx, { event: "limit.alert", account, ...call });
          const mail = row.isMailed ? mailOf?.(alert) : undefined;
          const isQueued = mail !== undefined && (await queueMail(trx, { account, ...mail }));
          if (!call && !isQueued) continue;
          await trx
            .updateTable("limitAlert")
            .set({ webhookId: call?.webhookId ?? null, mailId: isQueued ? mail.id : null })
            .where("budgetId", "=", budgetId)
            .where("percent", "=", percent)
            .where("lim", "=", row.limit)
            .execute();
        }
        return rows.length;
      }),

    async list(account, limit) {
      const { rows } = await sql<AlertRow & Pick<LimitAlert, "webhookId" | "mail">>`
        select budget_id, a.account_id as account, a.key_id, a.project_id, ${subjectName}, percent, lim as "limit", spent,
          ${epochMs("at")} as at_ms, webhook_id, m.state as mail
        from limit_alert a left join mail m using (mail_id)
          left join api_key k on k.token_id = a.key_id left join project p on p.project_id = a.project_id
        where a.account_id = ${account} order by at desc, percent desc, budget_id limit ${limit}`.execute(db);
      return rows.map((row) => ({ ...alertOf(row), webhookId: row.webhookId, mail: row.mail }));
    },
  });
}

const subjectName = sql`coalesce(k.name, p.name) as name`;

function alertOf(row: AlertRow): RaisedAlert {
  const { account, percent, limit, spent, atMs, budgetId } = row;
  // The last six digits of a month's budget are its month.
  const [year, month] = [Number(budgetId.slice(-6, -2)), Number(budgetId.slice(-2))];
  return { account, of: subjectOf(row), month: year * 12 + month - 1, percent, limit, spent, atMs };
}

function subjectOf({ keyId, projectId, name }: AlertRow): AlertSubject | null {
  if (keyId !== null) return { scope: "key", id: keyId, name: name ?? "" };
  return projectId === null ? null : { scope: "project", id: projectId, name: name ?? "" };
}
