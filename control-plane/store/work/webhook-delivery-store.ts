import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { ClaimedDelivery, DeliveryRecord, WebhookDeliveryStore } from "../../webhooks/store.ts";
import { auditOwn } from "../accounts/audit-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, interval, now } from "../core/time.ts";
import { fullAccounts, withinCapacity } from "./claim-capacity.ts";
import { allKeptBytes } from "./webhook-kept.ts";

/** Maximum rows that one claim considers, after those of hosts and accounts at their limit are excluded. */
const maxExamined = 2_000;

export function createWebhookDeliveryStore(db: Db): WebhookDeliveryStore {
  const records = (account: AccountId) =>
    db
      .selectFrom("webhookDelivery as d")
      .innerJoin("webhookJob as j", "j.requestId", "d.requestId")
      .select([
        "d.webhookId",
        "d.requestId",
        "d.event",
        "d.url",
        "d.state",
        "d.attempts",
        "d.lastStatus",
        "d.lastOutcome",
      ])
      .select([
        sql<DeliveryRecord["error"]>`case when j.error_code is not null then
          json_build_object('code', j.error_code, 'message', coalesce(j.error_message, '')) end`.as("error"),
        epochMs("d.createdAt").as("createdAtMs"),
        sql<number | null>`case when d.state = 'pending' then ${epochMs("d.dueAt")} end`.as("nextAttemptAtMs"),
        epochMs<null>("d.finishedAt").as("finishedAtMs"),
      ])
      .where("d.accountId", "=", account);

  return asked<WebhookDeliveryStore>({
    async claimDeliveries({ claim, limit, lockMs, maxPerHost, capacityOfHost, silent, ...capacity }) {
      const { rows } = await sql<ClaimedDelivery>`
        with host_capacity as (
          select * from unnest(${[...capacityOfHost.keys()]}::text[], ${[...capacityOfHost.values()]}::integer[]) as r (host, capacity)
        ), silent as (
          select * from unnest(${silent.map(({ account }) => account)}::text[], ${silent.map(({ host }) => host)}::text[],
            ${silent.map((one) => one.capacity)}::integer[]) as r (account_id, host, capacity)
        ), due as (
          select webhook_id as id, host, account_id, due_at, octet_length(body) as bytes from webhook_delivery
          where state = 'pending' and due_at <= now() and (locked_until is null or locked_until < now())
            and host not in (select host from host_capacity where capacity <= 0)
            and (account_id, host) not in (select account_id, host from silent where capacity <= 0)
            and account_id not in (${fullAccounts(capacity)})
          order by due_at limit ${sql.lit(maxExamined)}
        ), of_pairs as (
          select due.*, coalesce(capacity, ${maxPerHost}::integer) as capacity,
            row_number() over (partition by account_id, host order by due_at, id) as turn
          from due left join silent using (account_id, host)
        ), of_hosts as (
          select id, account_id, due_at, bytes, coalesce(host_capacity.capacity, ${maxPerHost}::integer) as capacity,
            row_number() over (partition by host order by due_at, id) as turn
          from of_pairs left join host_capacity using (host) where turn <= of_pairs.capacity
        ), chosen as (
          select webhook_id from webhook_delivery
          where webhook_id in (${withinCapacity(capacity, sql`(select * from of_hosts where turn <= capacity)`)})
            and state = 'pending' and (locked_until is null or locked_until < now())
          order by due_at limit ${limit} for update skip locked
        )
        update webhook_delivery set claim_id = ${claim}, locked_until = now() + ${interval(lockMs)}
        where webhook_id in (select webhook_id from chosen)
        returning webhook_id, claim_id as claim, account_id as account, url, host, body, attempts, tries`.execute(db);
      return rows;
    },

    noteAttempt: ({ webhookId, claim, atMs, ms, outcome, status, answer, nextMs }) =>
      inTransaction(db, async (trx) => {
        const isOver = outcome === "ok" || nextMs === undefined;
        const { rows } = await sql<{ attempts: number }>`
          update webhook_delivery set
            state = ${isOver ? (outcome === "ok" ? "delivered" : "exhausted") : "pending"},
            finished_at = ${isOver ? now : sql`null`}, due_at = now() + ${interval(nextMs ?? 0)},
            attempts = attempts + 1, tries = tries + 1, claim_id = null, locked_until = null,
            last_status = ${status ?? null}, last_outcome = ${outcome}
          where webhook_id = ${webhookId} and claim_id = ${claim} returning attempts`.execute(trx);
        const [row] = rows;
        if (!row) return false;
        await trx
          .insertInto("webhookAttempt")
          .values({ webhookId, number: row.attempts, at: new Date(atMs), ms, outcome, status: status ?? null, answer })
          .execute();
        return true;
      }),

    deliveries(account, before, limit) {
      let query = records(account).orderBy("d.webhookId", "desc").limit(limit);
      if (before !== undefined) query = query.where("d.webhookId", "<", before);
      return query.execute();
    },

    async delivery(account, webhookId) {
      const delivery = await records(account).where("d.webhookId", "=", webhookId).executeTakeFirst();
      if (!delivery) return undefined;
      const attempts = await db
        .selectFrom("webhookAttempt")
        .select(["number", epochMs("at").as("atMs"), "ms", "outcome", "status", "answer"])
        .where("webhookId", "=", webhookId)
        .orderBy("number")
        .execute();
      return { delivery, attempts };
    },

    replay: (actor, webhookId) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom("webhookDelivery")
          .select(["state", sql<boolean>`body is null`.as("isEmpty")])
          .where("accountId", "=", actor.account)
          .where("webhookId", "=", webhookId)
          .forUpdate()
          .executeTakeFirst();
        if (!row) return "unknown";
        if (row.state === "pending") return "pending";
        if (row.isEmpty) return "empty";
        await trx
          .updateTable("webhookDelivery")
          .set({ state: "pending", finishedAt: null, tries: 0, dueAt: now })
          .where("webhookId", "=", webhookId)
          .execute();
        await auditOwn(trx, actor, "webhook.replay", { subject: webhookId });
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
