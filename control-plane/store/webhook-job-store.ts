import { type Kysely, type Selectable, sql } from "kysely";
import type { AccountId, BudgetId, KeyId, RequestId } from "../../proto/ids.ts";
import type { ClaimedJob, WebhookJobStore } from "../webhooks/store.ts";
import { liveAccount } from "./account-rows.ts";
import { asked } from "./asked.ts";
import { fullAccounts, withRoom } from "./claim-room.ts";
import { inTransaction } from "./database.ts";
import { ms } from "./milliseconds.ts";
import type { Database } from "./schema.ts";
import { isFullOfPending, letOldResultsGo } from "./webhook-kept.ts";

/** Rows that one look for work considers: beyond them stands only what is younger. */
const mostLookedAt = 2_000;

/** `mostKeptBytes`: of the answers that calls of one account keep. */
export function createWebhookJobStore(db: Kysely<Database>, mostKeptBytes = Number.MAX_SAFE_INTEGER): WebhookJobStore {
  return asked<WebhookJobStore>({
    addJob: (job, lifeMs, most) =>
      inTransaction(db, async (trx) => {
        // Held to the end: an account that is being deleted takes no request after its requests were ended.
        const live = await liveAccount(trx, job.account).select("account_id").forShare().executeTakeFirst();
        if (!live) return "gone";
        // Of two at once the second must count the first.
        await sql`select pg_advisory_xact_lock(hashtextextended(${`webhooks/${job.account}`}, 0))`.execute(trx);
        const { rows } = await sql<{ is_full: boolean }>`
          select count(*) >= ${most.count} or coalesce(sum(octet_length(body)), 0) >= ${most.bytes} as is_full
          from webhook_job where account_id = ${job.account} and state in ('queued', 'running')`.execute(trx);
        if (rows[0]?.is_full) return "full";
        if (await isFullOfPending(trx, job.account, mostKeptBytes)) return "unheard";
        const { token } = job;
        await trx
          .insertInto("webhook_job")
          .values({
            request_id: job.requestId,
            account_id: job.account,
            key_id: job.key,
            token: token && JSON.stringify({ ...token, limit: token.limit === null ? null : String(token.limit) }),
            label: job.label ?? null,
            source: job.source ?? null,
            model: job.model,
            body: job.body,
            url: job.url,
            host: job.host,
            origin: job.origin,
            state: "queued",
            expires_at: sql<Date>`now() + ${ms(lifeMs)}`,
          })
          .execute();
        return "added";
      }),

    async claimJobs({ claim, limit, lockMs, ...room }) {
      const { rows } = await sql<Row & { is_expired: boolean }>`
        with due as (
          select request_id as id, account_id, due_at, octet_length(body) as bytes from webhook_job
          where state in ('queued', 'running') and due_at <= now() and (state = 'queued' or locked_until < now())
            and account_id not in (${fullAccounts(room)})
          order by due_at limit ${sql.lit(mostLookedAt)}
        ), chosen as (
          select request_id from webhook_job
          where request_id in (${withRoom(room, sql`due`)})
            and state in ('queued', 'running') and (state = 'queued' or locked_until < now())
          order by due_at limit ${limit} for update skip locked
        )
        update webhook_job set
          faults = faults + (state = 'running')::integer, state = 'running', claims = claims + 1,
          claim_id = ${claim} || '.' || request_id, locked_until = now() + ${ms(lockMs)}
        where request_id in (select request_id from chosen)
        returning *, expires_at < now() as is_expired`.execute(db);
      return rows.map(jobOf);
    },

    async keepJobs(claims, lockMs) {
      const { rows } = await sql<{ claim_id: string }>`
        update webhook_job set locked_until = now() + ${ms(lockMs)}
        where claim_id = any(${[...claims]}::text[]) and state = 'running' returning claim_id`.execute(db);
      return new Set(rows.map((row) => row.claim_id));
    },

    endJob: ({ requestId, claim, error, webhookId, body, results }) =>
      inTransaction(db, async (trx) => {
        const job = await trx
          .updateTable("webhook_job")
          .set({
            state: error ? "failed" : "succeeded",
            error_code: error?.code ?? null,
            error_message: error?.message ?? null,
            finished_at: sql<Date>`now()`,
            claim_id: null,
            locked_until: null,
            body: null,
          })
          .where("request_id", "=", requestId)
          .where("claim_id", "=", claim)
          .returning(["account_id", "url", "host"])
          .executeTakeFirst();
        if (!job) return false;
        await trx
          .insertInto("webhook_delivery")
          .values({
            webhook_id: webhookId,
            request_id: requestId,
            ...job,
            body,
            results: results ?? null,
            state: "pending",
          })
          .execute();
        await letOldResultsGo(trx, job.account_id, mostKeptBytes);
        return true;
      }),

    async requeueJob(requestId, claim, afterMs, isFault) {
      await sql`
        update webhook_job set state = 'queued', claim_id = null, locked_until = null,
          due_at = now() + ${ms(afterMs)}, faults = faults + ${isFault ? 1 : 0}::integer
        where request_id = ${requestId} and claim_id = ${claim}`.execute(db);
    },
  });
}

type Row = Selectable<Database["webhook_job"]>;

function jobOf(row: Row & { readonly is_expired: boolean }): ClaimedJob {
  const { token } = row;
  return {
    requestId: row.request_id as RequestId,
    claim: row.claim_id as string,
    account: row.account_id as AccountId,
    key: row.key_id as KeyId,
    token: token && {
      models: token.models,
      budget: token.budget as BudgetId | null,
      limit: token.limit === null ? null : BigInt(token.limit),
    },
    label: row.label ?? undefined,
    source: row.source ?? undefined,
    model: row.model,
    body: row.body ?? Buffer.alloc(0),
    url: row.url,
    host: row.host,
    origin: row.origin,
    createdAtMs: row.created_at.getTime(),
    isExpired: row.is_expired,
    claims: row.claims,
    faults: row.faults,
  };
}
