import { type Kysely, sql } from "kysely";
import type { AccountId, RequestId } from "../../../proto/ids.ts";
import type { DeliveryRecord, DeliveryState, WebhookDeliveryStore } from "../../webhooks/store.ts";
import { asked } from "../core/asked.ts";
import { inTransaction } from "../core/database.ts";
import { ms } from "../core/milliseconds.ts";
import type { Database } from "../core/schema.ts";
import { writeAudit } from "../people/audit-rows.ts";
import { fullAccounts, withinCapacity } from "./claim-room.ts";
import { allKeptBytes } from "./webhook-kept.ts";

/** Rows that one look for work considers: hosts and accounts without room are left out of them. */
const maxExamined = 2_000;

export function createWebhookDeliveryStore(db: Kysely<Database>): WebhookDeliveryStore {
  const records = (account: AccountId) =>
    db
      .selectFrom("webhookDelivery as d")
      .innerJoin("webhookJob as j", "j.requestId", "d.requestId")
      .select(["d.webhookId", "d.requestId", "d.url", "d.state", "d.attempts", "d.lastStatus", "d.lastOutcome"])
      .select(["d.createdAt", "d.dueAt", "d.finishedAt", "j.errorCode", "j.errorMessage"])
      .where("d.accountId", "=", account);

  return asked<WebhookDeliveryStore>({
    async claimDeliveries({ claim, limit, lockMs, maxPerHost, capacityOfHost, silent, ...room }) {
      const { rows } = await sql<{
        webhookId: string;
        claimId: string;
        accountId: string;
        url: string;
        host: string;
        body: Buffer;
        attempts: number;
        tries: number;
      }>`
        with rooms as (
          select * from unnest(${[...capacityOfHost.keys()]}::text[], ${[...capacityOfHost.values()]}::integer[]) as r (host, room)
        ), silent as (
          select * from unnest(${silent.map(({ account }) => account)}::text[], ${silent.map(({ host }) => host)}::text[],
            ${silent.map((one) => one.room)}::integer[]) as r (account_id, host, room)
        ), due as (
          select webhook_id as id, host, account_id, due_at, octet_length(body) as bytes from webhook_delivery
          where state = 'pending' and due_at <= now() and (locked_until is null or locked_until < now())
            and host not in (select host from rooms where room <= 0)
            and (account_id, host) not in (select account_id, host from silent where room <= 0)
            and account_id not in (${fullAccounts(room)})
          order by due_at limit ${sql.lit(maxExamined)}
        ), of_pairs as (
          select due.*, coalesce(room, ${maxPerHost}::integer) as room,
            row_number() over (partition by account_id, host order by due_at, id) as turn
          from due left join silent using (account_id, host)
        ), of_hosts as (
          select id, account_id, due_at, bytes, coalesce(rooms.room, ${maxPerHost}::integer) as room,
            row_number() over (partition by host order by due_at, id) as turn
          from of_pairs left join rooms using (host) where turn <= of_pairs.room
        ), chosen as (
          select webhook_id from webhook_delivery
          where webhook_id in (${withinCapacity(room, sql`(select * from of_hosts where turn <= room)`)})
            and state = 'pending' and (locked_until is null or locked_until < now())
          order by due_at limit ${limit} for update skip locked
        )
        update webhook_delivery set claim_id = ${claim}, locked_until = now() + ${ms(lockMs)}
        where webhook_id in (select webhook_id from chosen)
        returning webhook_id, claim_id, account_id, url, host, body, attempts, tries`.execute(db);
      return rows.map((row) => ({
        webhookId: row.webhookId,
        claim: row.claimId,
        account: row.accountId as AccountId,
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
          .insertInto("webhookAttempt")
          .values({
            webhookId: webhookId,
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
      let query = records(account).orderBy("d.webhookId", "desc").limit(limit);
      if (before !== undefined) query = query.where("d.webhookId", "<", before);
      return (await query.execute()).map(recordOf);
    },

    async delivery(account, webhookId) {
      const row = await records(account).where("d.webhookId", "=", webhookId).executeTakeFirst();
      if (!row) return undefined;
      const attempts = await db
        .selectFrom("webhookAttempt")
        .selectAll()
        .where("webhookId", "=", webhookId)
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
          .selectFrom("webhookDelivery")
          .select(["state", sql<boolean>`body is null`.as("isEmpty")])
          .where("accountId", "=", account)
          .where("webhookId", "=", webhookId)
          .forUpdate()
          .executeTakeFirst();
        if (!row) return "unknown";
        if (row.state === "pending") return "pending";
        if (row.isEmpty) return "empty";
        await trx
          .updateTable("webhookDelivery")
          .set({ state: "pending", finishedAt: null, tries: 0, dueAt: sql<Date>`now()` })
          .where("webhookId", "=", webhookId)
          .execute();
        await writeAudit(trx, { actor: account, action: "webhook.replay", subject: webhookId, account, ip });
        return "replayed";
      }),

    async results(requestId) {
      const row = await db
        .selectFrom("webhookDelivery")
        .select("results")
        .where("requestId", "=", requestId)
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
  readonly webhookId: string;
  readonly requestId: string;
  readonly url: string;
  readonly state: string;
  readonly attempts: number;
  readonly lastStatus: number | null;
  readonly lastOutcome: string | null;
  readonly createdAt: Date;
  readonly dueAt: Date;
  readonly finishedAt: Date | null;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
}

const recordOf = (row: RecordRow): DeliveryRecord => ({
  webhookId: row.webhookId,
  requestId: row.requestId as RequestId,
  url: row.url,
  state: row.state as DeliveryState,
  error: row.errorCode === null ? undefined : { code: row.errorCode, message: row.errorMessage ?? "" },
  attempts: row.attempts,
  lastStatus: row.lastStatus ?? undefined,
  lastOutcome: row.lastOutcome ?? undefined,
  createdAtMs: row.createdAt.getTime(),
  nextAttemptAtMs: row.state === "pending" ? row.dueAt.getTime() : undefined,
  finishedAtMs: row.finishedAt?.getTime(),
});
