import { sql } from "kysely";
import type { RequestId } from "../../../proto/ids.ts";
import type { IdempotencyClaim } from "../../accounts/store.ts";
import type { StreamStore } from "../../streams/store.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, interval, now } from "../core/time.ts";

/** Streams are rows of idempotency keys. */
export function createStreamStore(db: Db): StreamStore {
  return asked<StreamStore>({
    async claim({ account, route, key, claim, id, bodyHash, lockMs, keepMs }) {
      await db.deleteFrom("idempotency").where(isOf({ account, route, key })).where("expiresAt", "<=", now).execute();
      const { rows } = await sql<{ streamId: RequestId; startedAtMs: number; runs: number }>`
        insert into idempotency as i
          (account_id, route, key, body_hash, claim_id, locked_until, expires_at, stream_id, started_at, runs)
        values (${account}, ${route}, ${key}, ${bodyHash}, ${claim}, now() + ${interval(lockMs)},
          now() + ${interval(keepMs)}, ${id}, now(), 1)
        on conflict (account_id, route, key) do update set claim_id = excluded.claim_id, locked_until = excluded.locked_until,
          expires_at = excluded.expires_at, runs = i.runs + 1
        where i.stream_id is not null and i.answer is null and i.locked_until <= now() and i.body_hash = excluded.body_hash
        returning stream_id, ${epochMs("started_at")} as started_at_ms, runs`.execute(db);
      const [own] = rows;
      if (own) return { kind: "claimed", stream: { id: own.streamId, startedAtMs: own.startedAtMs }, run: own.runs };
      const row = await db
        .selectFrom("idempotency")
        .select(["bodyHash", "streamId", "answer", epochMs<null>("started_at").as("startedAtMs")])
        .where(isOf({ account, route, key }))
        .executeTakeFirst();
      // Abandoned in the meantime: the next try can claim it.
      if (!row) return { kind: "plain", hasEnded: false };
      if (!row.bodyHash.equals(bodyHash)) return { kind: "other_request" };
      const { streamId, startedAtMs } = row;
      if (streamId === null || startedAtMs === null) return { kind: "plain", hasEnded: row.answer !== null };
      return { kind: "known", stream: { id: streamId, startedAtMs } };
    },

    async renew(claim, lockMs) {
      await db
        .updateTable("idempotency")
        .set({ lockedUntil: sql`now() + ${interval(lockMs)}` })
        .where(isHeldBy(claim))
        .execute();
    },

    async release(claim) {
      await db.updateTable("idempotency").set({ lockedUntil: now }).where(isHeldBy(claim)).execute();
    },

    async abandon(claim) {
      await db.deleteFrom("idempotency").where(isHeldBy(claim)).execute();
    },

    async end(claim, answer) {
      await db.updateTable("idempotency").set({ answer }).where(isHeldBy(claim)).execute();
    },

    async append(pieces) {
      // The lock makes a run that takes over wait until these pieces can be read, or these find that it has.
      const { rows } = await sql<{ streamId: RequestId }>`
        with given as (
          select * from unnest(${pieces.map(({ id }) => id)}::text[], ${pieces.map(({ claim }) => claim)}::text[],
            ${pieces.map(({ seq }) => seq)}::int[], ${pieces.map(({ sealed }) => sealed)}::bytea[]) as g (stream_id, claim_id, seq, data)
        ), held as (
          select i.stream_id, i.claim_id from idempotency i
          where (i.stream_id, i.claim_id) in (select stream_id, claim_id from given) order by i.stream_id for share
        ), written as (
          insert into stream_piece (stream_id, seq, data)
          select stream_id, seq, data from given join held using (stream_id, claim_id)
        )
        select distinct stream_id from given left join held using (stream_id, claim_id) where held.stream_id is null`.execute(
        db,
      );
      return new Set(rows.map(({ streamId }) => streamId));
    },

    async read(id, from, limit) {
      // First the state: pieces that a stream has when it ends are read after it.
      const row = await db
        .selectFrom("idempotency")
        .select(sql<number>`extract(epoch from locked_until - now())::float8 * 1000`.as("lockedMs"))
        .select(sql<boolean>`answer is not null`.as("hasEnded"))
        .where("streamId", "=", id)
        .executeTakeFirst();
      const pieces = await db
        .selectFrom("streamPiece")
        .select("data")
        .where("streamId", "=", id)
        .where("seq", ">=", from)
        .orderBy("seq")
        .limit(limit)
        .execute();
      return { pieces: pieces.map(({ data }) => data), hasEnded: row?.hasEnded ?? true, lockedMs: row?.lockedMs ?? 0 };
    },

    async noteReader(id) {
      await db.updateTable("idempotency").set({ readAt: now }).where("streamId", "=", id).execute();
    },

    async wasReadWithin(id, ms) {
      const row = await db
        .selectFrom("idempotency")
        .select(sql<boolean>`read_at > now() - ${interval(ms)}`.as("isRead"))
        .where("streamId", "=", id)
        .executeTakeFirst();
      return row?.isRead ?? false;
    },
  });
}

const isOf = ({ account, route, key }: Omit<IdempotencyClaim, "claim">) =>
  sql<boolean>`account_id = ${account} and route = ${route} and key = ${key}`;

const isHeldBy = (claim: IdempotencyClaim) => sql<boolean>`${isOf(claim)} and claim_id = ${claim.claim}`;
