import { sql } from "kysely";
import type { RequestId } from "../../../proto/ids.ts";
import type { IdempotencyClaim } from "../../accounts/store.ts";
import type { StreamStore } from "../../streams/store.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, interval, now } from "../core/time.ts";
import { createIdempotencyStore, isHeldBy } from "./idempotency-store.ts";

/** Read at once. */
const maxPieces = 256;
const maxPartBytes = 256 * 1024;

/** Streams are rows of idempotency keys. */
export function createStreamStore(db: Db): StreamStore {
  const keys = createIdempotencyStore(db);
  return asked<StreamStore>({
    async claim({ account, route, key, claim, id, bodyHash, lockMs, keepMs }) {
      await db
        .deleteFrom("idempotency")
        .where(isOf({ account, route, key }))
        .where("expiresAt", "<=", now)
        .where(sql<boolean>`(answer is not null or locked_until <= now())`)
        .execute();
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

    async renew(claim, lockMs, keepMs) {
      await db
        .updateTable("idempotency")
        .set({ lockedUntil: sql`now() + ${interval(lockMs)}`, expiresAt: sql`now() + ${interval(keepMs)}` })
        .where(isHeldBy(claim))
        .execute();
    },

    async release(claim, hasRun) {
      const runs = sql<number>`runs - ${hasRun ? 0 : 1}::int`;
      await db.updateTable("idempotency").set({ lockedUntil: now, runs }).where(isHeldBy(claim)).execute();
    },

    abandon: keys.abandon,
    end: keys.finish,

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
          on conflict (stream_id, seq) do nothing
        )
        select distinct stream_id from given left join held using (stream_id, claim_id) where held.stream_id is null`.execute(
        db,
      );
      return new Set(rows.map(({ streamId }) => streamId));
    },

    async read(id, from) {
      const { rows } = await sql<{ lockedMs: number; hasEnded: boolean; seq: number | null; data: Buffer }>`
        select extract(epoch from i.locked_until - now())::float8 * 1000 as locked_ms, i.answer is not null as has_ended, p.seq, p.data
        from idempotency i left join lateral (
          select seq, data, sum(length(data)) over (order by seq) - length(data) as bytes_before from (
            select seq, data from stream_piece s where s.stream_id = i.stream_id and seq >= ${from} order by seq limit ${maxPieces}
          ) next
        ) p on p.bytes_before < ${maxPartBytes}
        where i.stream_id = ${id} order by p.seq`.execute(db);
      const [first] = rows;
      if (!first) return undefined;
      // After a gap nothing can be sent.
      const pieces = rows.filter(({ seq }, i) => seq === from + i).map(({ data }) => data);
      return { pieces, hasEnded: first.hasEnded, lockedMs: first.lockedMs };
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
