import { type Selectable, sql } from "kysely";
import { readTraceContext, traceparent } from "../../../proto/trace-context.ts";
import type { ClaimedJob, WebhookJobStore } from "../../webhooks/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Database, Db } from "../core/schema.ts";
import { interval, now } from "../core/time.ts";
import { fullAccounts, withinCapacity } from "./claim-capacity.ts";
import { discardOldResults, isFullOfPending } from "./webhook-kept.ts";

/** Maximum rows that one claim considers, oldest first. */
const maxExamined = 2_000;

/** `maxKeptBytes`: maximum bytes of results stored for the calls of one account. */
export function createWebhookJobStore(db: Db, maxKeptBytes = Number.MAX_SAFE_INTEGER): WebhookJobStore {
  return asked<WebhookJobStore>({
    addJob: (job, lifeMs, limit) =>
      inTransaction(db, async (trx) => {
        // Locked until commit: an account that is being deleted must not get a request after its requests were ended.
        if (!(await lockAccount(trx, job.account, "forShare"))) return "gone";
        // Serialised per account, so that concurrent requests count each other.
        await sql`select pg_advisory_xact_lock(hashtextextended(${`webhooks/${job.account}`}, 0))`.execute(trx);
        const { rows } = await sql<{ isFull: boolean }>`
          select count(*) >= ${limit.count} or coalesce(sum(octet_length(body)), 0) >= ${limit.bytes} as is_full
          from webhook_job where account_id = ${job.account} and state in ('queued', 'running')`.execute(trx);
        if (rows[0]?.isFull) return "full";
        if (await isFullOfPending(trx, job.account, maxKeptBytes)) return "unheard";
        const { token } = job;
        await trx
          .insertInto("webhookJob")
          .values({
            requestId: job.requestId,
            accountId: job.account,
            keyId: job.key,
            token: token && JSON.stringify({ ...token, limit: token.limit === null ? null : String(token.limit) }),
            label: job.label ?? null,
            source: job.source ?? null,
            model: job.model,
            trace: job.trace?.isSampled ? traceparent(job.trace) : null,
            body: job.body,
            url: job.url,
            host: job.host,
            origin: job.origin,
            state: "queued",
            expiresAt: sql<Date>`now() + ${interval(lifeMs)}`,
          })
          .execute();
        return "added";
      }),

    async claimJobs({ claim, limit, lockMs, ...capacity }) {
      const { rows } = await sql<Row & { isExpired: boolean }>`
        with due as (
          select request_id as id, account_id, due_at, octet_length(body) as bytes from webhook_job
          where state in ('queued', 'running') and due_at <= now() and (state = 'queued' or locked_until < now())
            and account_id not in (${fullAccounts(capacity)})
          order by due_at limit ${sql.lit(maxExamined)}
        ), chosen as (
          select request_id from webhook_job
          where request_id in (${withinCapacity(capacity, sql`due`)})
            and state in ('queued', 'running') and (state = 'queued' or locked_until < now())
          order by due_at limit ${limit} for update skip locked
        )
        update webhook_job set
          faults = faults + (state = 'running')::integer, state = 'running', claims = claims + 1,
          claim_id = ${claim} || '.' || request_id, locked_until = now() + ${interval(lockMs)}
        where request_id in (select request_id from chosen)
        returning *, expires_at < now() as is_expired`.execute(db);
      return rows.map(jobOf);
    },

    async keepJobs(claims, lockMs) {
      const { rows } = await sql<{ claimId: string }>`
        update webhook_job set locked_until = now() + ${interval(lockMs)}
        where claim_id = any(${[...claims]}::text[]) and state = 'running' returning claim_id`.execute(db);
      return new Set(rows.map((row) => row.claimId));
    },

    endJob: ({ requestId, claim, error, webhookId, body, results }) =>
      inTransaction(db, async (trx) => {
        const job = await trx
          .updateTable("webhookJob")
          .set({
            state: error ? "failed" : "succeeded",
            errorCode: error?.code ?? null,
            errorMessage: error?.message ?? null,
            finishedAt: now,
            claimId: null,
            lockedUntil: null,
            body: null,
          })
          .where("requestId", "=", requestId)
          .where("claimId", "=", claim)
          .returning(["accountId", "url", "host"])
          .executeTakeFirst();
        if (!job) return false;
        await trx
          .insertInto("webhookDelivery")
          .values({ webhookId, requestId, ...job, body, results: results ?? null, state: "pending" })
          .execute();
        await discardOldResults(trx, job.accountId, maxKeptBytes);
        return true;
      }),

    async requeueJob(requestId, claim, afterMs, isFault) {
      await sql`
        update webhook_job set state = 'queued', claim_id = null, locked_until = null,
          due_at = now() + ${interval(afterMs)}, faults = faults + ${isFault ? 1 : 0}::integer
        where request_id = ${requestId} and claim_id = ${claim}`.execute(db);
    },
  });
}

type Row = Selectable<Database["webhookJob"]>;

function jobOf(row: Row & { readonly isExpired: boolean }): ClaimedJob {
  const { requestId, token, model, url, host, origin, isExpired, claims, faults } = row;
  return {
    requestId,
    claim: row.claimId as string,
    account: row.accountId,
    key: row.keyId,
    token: token && { ...token, limit: token.limit === null ? null : BigInt(token.limit) },
    label: row.label ?? undefined,
    source: row.source ?? undefined,
    trace: readTraceContext(row.trace ?? undefined, undefined),
    model,
    body: row.body ?? Buffer.alloc(0),
    url,
    host,
    origin,
    createdAtMs: row.createdAt.getTime(),
    isExpired,
    claims,
    faults,
  };
}
