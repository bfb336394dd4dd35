import { type Kysely, sql } from "kysely";
import type { AccountId, RequestId } from "../../proto/ids.ts";
import type { DeliveryRecord, DeliveryState, WebhookDeliveryStore } from "../webhooks/store.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { fullAccounts, withRoom } from "./claim-room.ts";
import { inTransaction } from "./database.ts";
import { ms } from "./milliseconds.ts";
import type { Database } from "./schema.ts";
import { allKeptBytes } from "./webhook-kept.ts";

/** Rows that one look for work considers: hosts and accounts without room are left out of them. */
const mostLookedAt = 2_000;

export function createWebhookDeliveryStore(db: Kysely<Database>): WebhookDeliveryStore {
  const records = (account: AccountId) =>
    db
      .selectFrom("webhook_delivery as d")
      .innerJoin("webhook_job as j", "j.request_id", "d.request_id")
      .select(["d.webhook_id", "d.request_id", "d.url", "d.state", "d.attempts", "d.last_status", "d.last_outcome"])
      .select(["d.created_at", "d.due_at", "d.finished_at", "j.error_code", "j.error_message"])
      .where("d.account_id", "=", account);

  return asked<WebhookDeliveryStore>({
    async claimDeliveries({ claim, limit, lockMs, mostOfHost, roomOfHost, silent, ...room }) {
      const { rows } = await sql<{
        webhook_id: string;
        claim_id: string;
        account_id: string;
        url: string;
        host: string;
        body: Buffer;
        attempts: number;
        tries: number;
      }>`
        with rooms as (
          select * from unnest(${[...roomOfHost.keys()]}::text[], ${[...roomOfHost.values()]}::integer[]) as r (host, room)
        ), silent as (
          select * from unnest(${silent.map(({ account }) => account)}::text[], ${silent.map(({ host }) => host)}::text[],
            ${silent.map((one) => one.room)}::integer[]) as r (account_id, host, room)
        ), due as (
          select webhook_id as id, host, account_id, due_at, octet_length(body) as bytes from webhook_delivery
          where state = 'pending' and due_at <= now() and (locked_until is null or locked_until < now())
            and host not in (select host from rooms where room <= 0)
            and (account_id, host) not in (select account_id, host from silent where room <= 0)
            and account_id not in (${fullAccounts(room)})
          order by due_at limit ${sql.lit(mostLookedAt)}
        ), of_pairs as (
          select due.*, coalesce(room, ${mostOfHost}::integer) as room,
            row_number() over (partition by account_id, host order by due_at, id) as turn
          from due left join silent using (account_id, host)
        ), of_hosts as (
          select id, account_id, due_at, bytes, coalesce(rooms.room, ${mostOfHost}::integer) as room,
            row_number() over (partition by host order by due_at, id) as turn
          from of_pairs left join rooms using (host) where turn <= of_pairs.room
        ), chosen as (
          select webhook_id from webhook_delivery
          where webhook_id in (${withRoom(room, sql`(select * from of_hosts where turn <= room)`)})
            and state = 'pending' and (locked_until is null or locked_until < now())
          order by due_at limit ${limit} for update skip locked
        )
        update webhook_delivery set claim_id = ${claim}, locked_until = now() + ${ms(lockMs)}
        where webhook_id in (select webhook_id from chosen)
        returning webhook_id, claim_id, account_id, url, host, body, attempts, tries`.execute(db);
      return rows.map((row) => ({
        webhookId: row.webhook_id,
        claim: row.claim_id,
        account: row.account_id as AccountId,
        url: row.url,
        host: row.host,
        body: row.body,
        attempts: row.attempts,
        tries: row.tries,
      }));
    },

    noteAttempt: ({ webhookId, claim, atMs, ms: took, outcome, status, answer, nextMs }) =>
      inTransaction(db, async (trx) => {
        const isOver = outcome === "ok" || nextMs === undefined;
        const { rows } = await sql<{ attempts: number }>`
          update webhook_delivery set
            state = ${isOver ? (outcome === "ok" ? "delivered" : "exhausted") : "pending"},
            finished_at = ${isOver ? sql`now()` : sql`null`}, due_at = now() + ${ms(nextMs ?? 0)},
            attempts = attempts + 1, tries = tries + 1, claim_id = null, locked_until = null,
            last_status = ${status ?? null}, last_outcome = ${outcome}
          where webhook_id = ${webhookId} and claim_id = ${claim} returning attempts`.execute(trx);
        const [row] = rows;
        if (!row) return false;
        await trx
          .insertInto("webhook_attempt")
          .values({
            webhook_id: webhookId,
            number: row.attempts,
            at: new Date(atMs),
            ms: took,
            outcome,
            status: status ?? null,
            answer,
          })
          .execute();
        return true;
      }),

    async deliveries(account, before, limit) {
      let query = records(account).orderBy("d.webhook_id", "desc").limit(limit);
      if (before !== undefined) query = query.where("d.webhook_id", "<", before);
      return (await query.execute()).map(recordOf);
    },

    async delivery(account, webhookId) {
      const row = await records(account).where("d.webhook_id", "=", webhookId).executeTakeFirst();
      if (!row) return undefined;
      const attempts = await db
        .selectFrom("webhook_attempt")
        .selectAll()
        .where("webhook_id", "=", webhookId)
        .orderBy("number")
        .execute();
      return {
        delivery: recordOf(row),
        attempts: attempts.map((one) => ({
          number: one.number,
          atMs: one.at.getTime(),
          ms: one.ms,
          outcome: one.outcome,
          status: one.status ?? undefined,
          answer: one.answer,
        })),
      };
    },

    replay: (account, webhookId, ip) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom("webhook_delivery")
          .select(["state", sql<boolean>`body is null`.as("is_empty")])
          .where("account_id", "=", account)
          .where("webhook_id", "=", webhookId)
          .forUpdate()
          .executeTakeFirst();
        if (!row) return "unknown";
        if (row.state === "pending") return "pending";
        if (row.is_empty) return "empty";
        await trx
          .updateTable("webhook_delivery")
          .set({ state: "pending", finished_at: null, tries: 0, due_at: sql<Date>`now()` })
          .where("webhook_id", "=", webhookId)
          .execute();
        await writeAudit(trx, { actor: account, action: "webhook.replay", subject: webhookId, account, ip });
        return "replayed";
      }),

    async results(requestId) {
      const row = await db
        .selectFrom("webhook_delivery")
        .select("results")
        .where("request_id", "=", requestId)
        .executeTakeFirst();
      return row?.results ?? undefined;
    },

    keptBytes: () => allKeptBytes(db),

    async oldestDueMs() {
      const { rows } = await sql<{ ms: number }>`
        select coalesce(extract(epoch from now() - min(due_at)) * 1000, 0)::float8 as ms from webhook_delivery
        where state = 'pending' and due_at <= now()`.execute(db);
      return rows[0]?.ms ?? 0;
    },
  });
}

interface RecordRow {
  readonly webhook_id: string;
  readonly request_id: string;
  readonly url: string;
  readonly state: string;
  readonly attempts: number;
  readonly last_status: number | null;
  readonly last_outcome: string | null;
  readonly created_at: Date;
  readonly due_at: Date;
  readonly finished_at: Date | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
}

const recordOf = (row: RecordRow): DeliveryRecord => ({
  webhookId: row.webhook_id,
  requestId: row.request_id as RequestId,
  url: row.url,
  state: row.state as DeliveryState,
  error: row.error_code === null ? undefined : { code: row.error_code, message: row.error_message ?? "" },
  attempts: row.attempts,
  lastStatus: row.last_status ?? undefined,
  lastOutcome: row.last_outcome ?? undefined,
  createdAtMs: row.created_at.getTime(),
  nextAttemptAtMs: row.state === "pending" ? row.due_at.getTime() : undefined,
  finishedAtMs: row.finished_at?.getTime(),
});
