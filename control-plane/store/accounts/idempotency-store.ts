import { sql } from "kysely";
import type { IdempotencyClaim, IdempotencyStore } from "../../accounts/store.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { interval } from "../core/time.ts";

export function createIdempotencyStore(db: Db): IdempotencyStore {
  return asked<IdempotencyStore>({
    async claim({ account, route, key, bodyHash, claim, lockMs, keepMs, mayTakeOver }) {
      // One statement decides which attempt runs it. A finished row, or one whose holder may be alive, stays unchanged.
      const taken = await sql`
        insert into idempotency (account_id, route, key, body_hash, claim_id, locked_until, expires_at)
        values (${account}, ${route}, ${key}, ${bodyHash}, ${claim},
          now() + ${interval(lockMs)}, now() + ${interval(keepMs)})
        on conflict (account_id, route, key) do update set
          body_hash = excluded.body_hash, claim_id = excluded.claim_id, answer = null,
          locked_until = excluded.locked_until, expires_at = excluded.expires_at
        where (idempotency.expires_at <= now() and idempotency.stream_id is null)
          or (${mayTakeOver} and idempotency.answer is null and idempotency.locked_until <= now() and idempotency.stream_id is null)
        returning claim_id`.execute(db);
      if (taken.rows.length > 0) return { kind: "claimed" };
      const row = await db
        .selectFrom("idempotency")
        .select(["bodyHash", "answer"])
        .select(sql<number>`extract(epoch from locked_until - now())::float8 * 1000`.as("lockedMs"))
        .where("accountId", "=", account)
        .where("route", "=", route)
        .where("key", "=", key)
        .executeTakeFirst();
      // Abandoned in the meantime: the next attempt can claim it.
      if (!row) return { kind: "running", forMs: 1_000 };
      if (!row.bodyHash.equals(bodyHash)) return { kind: "other_request" };
      if (row.answer) return { kind: "answered", answer: row.answer };
      return row.lockedMs <= 0 && !mayTakeOver ? { kind: "lost" } : { kind: "running", forMs: row.lockedMs };
    },

    async renew(claim, lockMs) {
      await db
        .updateTable("idempotency")
        .set({ lockedUntil: sql`now() + ${interval(lockMs)}` })
        .where(isHeldBy(claim))
        .execute();
    },

    async finish(claim, answer) {
      await db.updateTable("idempotency").set({ answer }).where(isHeldBy(claim)).execute();
    },

    async abandon(claim) {
      await db.deleteFrom("idempotency").where(isHeldBy(claim)).execute();
    },
  });
}

/** True for the row whose claim is still this one. */
export const isHeldBy = ({ account, route, key, claim }: IdempotencyClaim) =>
  sql<boolean>`account_id = ${account} and route = ${route} and key = ${key} and claim_id = ${claim}`;
