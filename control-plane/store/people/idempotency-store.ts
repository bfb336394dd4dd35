import { type Kysely, sql } from "kysely";
import type { IdempotencyStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import type { Database } from "../core/schema.ts";

export function createIdempotencyStore(db: Kysely<Database>): IdempotencyStore {
  return asked<IdempotencyStore>({
    async claim({ account, route, key, bodyHash, claim, lockMs, keepMs, mayTakeOver }) {
      // One statement decides who runs it; a row that is finished, or whose holder may still live, stays as it is.
      const taken = await sql`
        insert into idempotency (account_id, route, key, body_hash, claim_id, locked_until, expires_at)
        values (${account}, ${route}, ${key}, ${bodyHash}, ${claim},
          now() + make_interval(secs => ${lockMs / 1000}), now() + make_interval(secs => ${keepMs / 1000}))
        on conflict (account_id, route, key) do update set
          body_hash = excluded.body_hash, claim_id = excluded.claim_id, answer = null,
          locked_until = excluded.locked_until, expires_at = excluded.expires_at
        where idempotency.expires_at <= now()
          or (${mayTakeOver} and idempotency.answer is null and idempotency.locked_until <= now())
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
      // Given up in between: whoever asks again gets it.
      if (!row) return { kind: "running", forMs: 1_000 };
      if (!row.bodyHash.equals(bodyHash)) return { kind: "other_request" };
      if (row.answer) return { kind: "answered", answer: row.answer };
      return row.lockedMs <= 0 && !mayTakeOver ? { kind: "lost" } : { kind: "running", forMs: row.lockedMs };
    },

    async renew({ account, route, key, claim }, lockMs) {
      await db
        .updateTable("idempotency")
        .set({ lockedUntil: sql`now() + make_interval(secs => ${lockMs / 1000})` })
        .where("accountId", "=", account)
        .where("route", "=", route)
        .where("key", "=", key)
        .where("claimId", "=", claim)
        .execute();
    },

    async finish({ account, route, key, claim }, answer) {
      await db
        .updateTable("idempotency")
        .set({ answer })
        .where("accountId", "=", account)
        .where("route", "=", route)
        .where("key", "=", key)
        .where("claimId", "=", claim)
        .execute();
    },

    async abandon({ account, route, key, claim }) {
      await db
        .deleteFrom("idempotency")
        .where("accountId", "=", account)
        .where("route", "=", route)
        .where("key", "=", key)
        .where("claimId", "=", claim)
        .execute();
    },
  });
}
