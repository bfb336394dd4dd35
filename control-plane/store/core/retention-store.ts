import { type RawBuilder, sql } from "kysely";
import type { Kept, RetentionStore } from "../../retention/store.ts";
import { expireUsage } from "../money/expired-usage.ts";
import { asked } from "./outage.ts";
import type { Db } from "./schema.ts";

/** Deletes expired rows of each kind, oldest first where an index gives that order. */
const old: Readonly<Record<Exclude<Kept, "usage">, (before: Date, limit: number) => RawBuilder<unknown>>> = {
  // In order of sequence, so that a reader never finds a gap before older rows.
  changes: (before, limit) => sql`
    delete from change where seq in (
      select seq from (select seq, at from change order by seq limit ${limit}) oldest where at < ${before})`,
  "request-labels": (before, limit) => sql`
    delete from request_label where request_id in (
      select request_id from request_label where at < ${before} order by at limit ${limit})`,
  "rejected-requests": (before, limit) => sql`
    delete from rejected_request where request_id in (
      select request_id from rejected_request where at < ${before} order by at limit ${limit})`,
  "delivered-counts": (before, limit) => sql`
    delete from delivered_count where (request_id, attempt) in (
      select request_id, attempt from delivered_count d where at < ${before}
        and (resolved_at is not null
          or exists (select 1 from usage u where u.request_id = d.request_id and u.attempt = d.attempt)) limit ${limit})`,
  leases: (before, limit) => sql`
    delete from lease where lease_id in (select lease_id from lease where closed_at < ${before} limit ${limit})`,
  // Except commands that an operation still waits for.
  commands: (before, limit) => sql`
    delete from host_command where command_id in (
      select command_id from host_command c where coalesce(finished_at, deadline_at) < ${before}
        and not exists (select 1 from agent_instance a where c.command_id in (a.operation_command, a.removal_command))
        and not exists (select 1 from instance_backup b where b.removal_command = c.command_id) limit ${limit})`,
  "ended-instances": (before, limit) => sql`
    delete from ended_instance where instance_id in (
      select instance_id from ended_instance where ended_at < ${before} and seen_again_at is null
        order by ended_at limit ${limit})`,
  // Deletes calls and attempts with them; except those with attempts left.
  webhooks: (before, limit) => sql`
    delete from webhook_job where request_id in (
      select j.request_id from webhook_job j left join webhook_delivery d using (request_id)
      where j.finished_at < ${before} and (d.webhook_id is null or d.finished_at < ${before})
      order by j.finished_at limit ${limit})`,
  "limit-alerts": (before, limit) => sql`
    delete from limit_alert where (budget_id, percent, lim) in (
      select budget_id, percent, lim from limit_alert where at < ${before} order by at limit ${limit})`,
  mails: (before, limit) => sql`
    delete from mail where mail_id in (select mail_id from mail where created_at < ${before} order by created_at limit ${limit})`,
  "stored-responses": (before, limit) => sql`
    delete from stored_response where response_id in (
      select response_id from stored_response where created_at < ${before} and finished_at is not null
        order by created_at limit ${limit})`,
  // The status is checked again in the outer statement, because an operator may restart a batch.
  batches: (before, limit) => sql`
    delete from batch where status in ('completed', 'failed', 'expired', 'cancelled') and batch_id in (
      select batch_id from batch b where status in ('completed', 'failed', 'expired', 'cancelled')
        and greatest(completed_at, failed_at, expired_at, cancelled_at) < ${before}
        and not exists (select from file f where f.file_id in (b.output_file_id, b.error_file_id)) limit ${limit})`,
  // In the order of ids, which is about that of time.
  events: (before, limit) => sql`
    delete from event where event_id in (
      select event_id from (select event_id, at from event order by event_id limit ${limit}) oldest where at < ${before})`,
  incidents: (before, limit) => sql`
    delete from incident where incident_id in (
      select incident_id from incident where ended_at < ${before} order by ended_at limit ${limit})`,
  replicas: (before, limit) => sql`
    delete from replica where replica_id in (
      select replica_id from replica r where seen_at < ${before}
        and not exists (select 1 from lease l where l.replica_id = r.replica_id) limit ${limit})`,
  // A stream's pieces first, a part at a time.
  "stream-pieces": (before, limit) => sql`
    delete from stream_piece where (stream_id, seq) in (
      select p.stream_id, p.seq from idempotency i join stream_piece p using (stream_id) where i.expires_at < ${before} limit ${limit})`,
  idempotency: (before, limit) => sql`
    delete from idempotency where (account_id, route, key) in (
      select account_id, route, key from idempotency i where expires_at < ${before}
        and not exists (select 1 from stream_piece p where p.stream_id = i.stream_id) order by expires_at limit ${limit})`,
  "login-sessions": (before, limit) => sql`
    delete from login_session where lookup in (
      select lookup from login_session where expires_at < ${before} order by expires_at limit ${limit})`,
  "cli-logins": (before, limit) => sql`
    delete from cli_login where lookup in (
      select lookup from cli_login where expires_at < ${before} order by expires_at limit ${limit})`,
  "sign-in-challenges": (before, limit) => sql`
    delete from sign_in_challenge where lookup in (
      select lookup from sign_in_challenge where expires_at < ${before} order by expires_at limit ${limit})`,
  "provider-sign-ins": (before, limit) => sql`
    delete from provider_sign_in where lookup in (
      select lookup from provider_sign_in where expires_at < ${before} order by expires_at limit ${limit})`,
  "workload-exchanges": (before, limit) => sql`
    with done as (
      select exchange_id, token_id from workload_exchange where token_expires_at < ${before} and expires_at < ${before}
        order by token_expires_at limit ${limit}),
      -- Expired keys are refused already; revoked ones are listed no more.
      ended as (update api_key set revoked_at = now() where token_id in (select token_id from done) and revoked_at is null)
    delete from workload_exchange where exchange_id in (select exchange_id from done)`,
  "sign-in-attempts": (before, limit) => sql`
    delete from sign_in_attempt where key in (
      select key from sign_in_attempt where expires_at < ${before} order by expires_at limit ${limit})`,
};

export function createRetentionStore(db: Db): RetentionStore {
  return asked<RetentionStore>({
    async deleteBefore(kind, before, limit) {
      if (kind === "usage") return expireUsage(db, before, limit);
      const { numAffectedRows } = await old[kind](before, limit).execute(db);
      return Number(numAffectedRows ?? 0n);
    },
  });
}
