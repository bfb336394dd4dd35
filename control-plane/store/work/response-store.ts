import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { ClaimedResponse, ResponseSize, ResponseStore } from "../../responses/store.ts";
import { liveAccount } from "../accounts/account-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, interval, now } from "../core/time.ts";
import { fullAccounts, withinCapacity } from "./claim-capacity.ts";

/** Maximum rows that one claim considers, oldest first. */
const maxExamined = 2_000;

const shown = ["responseId as id", "status", "background", "sealed"] as const;

/** Serialised per account, so that concurrent requests count each other. */
const lockResponses = (trx: Trx, account: AccountId) =>
  sql`select pg_advisory_xact_lock(hashtextextended(${`responses/${account}`}, 0))`.execute(trx);

export function createResponseStore(db: Db): ResponseStore {
  return asked<ResponseStore>({
    add: ({ id, account, key, previous, status, background, sealed }, lifeMs, limits) =>
      inTransaction(db, async (trx) => {
        // Locked until commit: an account that is being deleted must not get another response.
        const live = await liveAccount(trx, account).select("accountId").forShare().executeTakeFirst();
        if (!live) return "gone";
        await lockResponses(trx, account);
        const { rows } = await sql<{ isFull: boolean; isBusy: boolean }>`
          select coalesce(sum(bytes), 0) + ${sealed.length} > ${limits.bytes} as is_full,
            count(*) filter (where status in ('queued', 'in_progress')) >= ${limits.unfinished} as is_busy
          from stored_response where account_id = ${account}`.execute(trx);
        if (rows[0]?.isFull) return "full";
        if (background && rows[0]?.isBusy) return "busy";
        const isOver = status !== "queued" && status !== "in_progress";
        await trx
          .insertInto("storedResponse")
          .values({
            responseId: id,
            accountId: account,
            keyId: key,
            previousId: previous ?? null,
            status,
            background,
            sealed,
            finishedAt: isOver ? now : null,
            expiresAt: sql<Date>`now() + ${interval(lifeMs)}`,
          })
          .execute();
        return "added";
      }),

    async storedBytes(account) {
      const row = await db
        .selectFrom("storedResponse")
        .select(sql<number>`coalesce(sum(bytes), 0)::float8`.as("bytes"))
        .where("accountId", "=", account)
        .executeTakeFirst();
      return row?.bytes ?? 0;
    },

    find: (account, ids) =>
      db
        .selectFrom("storedResponse")
        .select(shown)
        .where("accountId", "=", account)
        .where("responseId", "in", [...ids])
        .execute(),

    sizes: (account, ids) =>
      db
        .selectFrom("storedResponse")
        .select(["responseId as id", "status", sql<number>`bytes::float8`.as("bytes")])
        .where("accountId", "=", account)
        .where("responseId", "in", [...ids])
        .execute(),

    async chain(account, id, max) {
      const { rows } = await sql<ResponseSize & { readonly previous: string | null }>`
        with recursive chain as (
          select response_id, previous_id, 1 as depth from stored_response
          where account_id = ${account} and response_id = ${id}
          union all
          select r.response_id, r.previous_id, depth + 1 from chain c
            join stored_response r on r.account_id = ${account} and r.response_id = c.previous_id
          where depth <= ${max}
        )
        select response_id as id, r.previous_id as previous, status, bytes::float8 as bytes
        from chain join stored_response r using (response_id) order by depth desc`.execute(db);
      // One of them was deleted, or has expired.
      return rows.length === 0 || (rows[0]?.previous !== null && rows.length <= max) ? undefined : rows;
    },

    async remove(account, id) {
      const { numDeletedRows } = await db
        .deleteFrom("storedResponse")
        .where("accountId", "=", account)
        .where("responseId", "=", id)
        .executeTakeFirst();
      return numDeletedRows > 0n;
    },

    async cancel(account, id) {
      await db
        .updateTable("storedResponse")
        .set({ status: "cancelled", finishedAt: now, claimId: null, lockedUntil: null })
        .where("accountId", "=", account)
        .where("responseId", "=", id)
        .where("status", "in", ["queued", "in_progress"])
        .execute();
    },

    async claim({ claim, limit, lockMs, ...capacity }) {
      const { rows } = await sql<ClaimedResponse>`
        with due as (
          select response_id as id, account_id, due_at, bytes from stored_response
          where status in ('queued', 'in_progress') and due_at <= now() and (status = 'queued' or locked_until < now())
            and account_id not in (${fullAccounts(capacity)})
          order by due_at limit ${sql.lit(maxExamined)}
        ), chosen as (
          select response_id from stored_response
          where response_id in (${withinCapacity(capacity, sql`due`)})
            and status in ('queued', 'in_progress') and (status = 'queued' or locked_until < now())
          order by due_at limit ${limit} for update skip locked
        )
        update stored_response set
          faults = faults + (status = 'in_progress')::integer, status = 'in_progress', claims = claims + 1,
          claim_id = ${claim} || '.' || response_id, locked_until = now() + ${interval(lockMs)}
        where response_id in (select response_id from chosen)
        returning response_id as id, claim_id as claim, account_id as account, key_id as key, sealed, claims, faults,
          ${epochMs("created_at")} as created_at_ms, expires_at < now() as is_expired`.execute(db);
      return rows;
    },

    async keep(claims, lockMs) {
      const { rows } = await sql<{ claimId: string }>`
        update stored_response set locked_until = now() + ${interval(lockMs)}
        where claim_id = any(${[...claims]}::text[]) and status = 'in_progress' returning claim_id`.execute(db);
      return new Set(rows.map((row) => row.claimId));
    },

    end: ({ id, claim, account }, status, sealed, maxBytes) =>
      inTransaction(db, async (trx) => {
        if (maxBytes !== undefined) {
          await lockResponses(trx, account);
          const { rows } = await sql<{ isFull: boolean }>`
            select coalesce(sum(bytes), 0) + ${sealed.length} > ${maxBytes} as is_full
            from stored_response where account_id = ${account} and response_id <> ${id}`.execute(trx);
          if (rows[0]?.isFull) return "full";
        }
        const { numUpdatedRows } = await trx
          .updateTable("storedResponse")
          .set({ status, sealed, finishedAt: now, claimId: null, lockedUntil: null })
          .where("responseId", "=", id)
          .where("claimId", "=", claim)
          .executeTakeFirst();
        return numUpdatedRows > 0n ? "ended" : "overtaken";
      }),

    async requeue(id, claim, afterMs, isFault) {
      await sql`
        update stored_response set status = 'queued', claim_id = null, locked_until = null,
          due_at = now() + ${interval(afterMs)}, faults = faults + ${isFault ? 1 : 0}::integer
        where response_id = ${id} and claim_id = ${claim}`.execute(db);
    },
  });
}
