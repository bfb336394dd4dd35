import { sql } from "kysely";
import type { AuditChainStore, AuditLink } from "../../accounts/store.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";

/**
 * Rows are visible after their transaction ends, so not in the order of their ids. This many ids below the last link are checked again
 * for rows that were not sealed: more than are written while a transaction of a control plane runs.
 */
const lateIds = 10_000n;

export function createAuditChainStore(db: Db): AuditChainStore {
  return asked<AuditChainStore>({
    seal: (limit, link) =>
      db.transaction().execute(async (trx) => {
        if (!(await isOnlySealer(trx))) return undefined;
        const head = await headOf(trx);
        const rows = await contents(trx)
          .leftJoin("auditLink", "auditLink.auditId", "audit.auditId")
          .where("auditLink.seq", "is", null)
          .where("audit.auditId", ">", await floorOf(trx, head))
          .orderBy("audit.auditId")
          .limit(limit)
          .execute();
        if (rows.length === 0) return 0;
        const links = link(head, rows);
        await trx
          .insertInto("auditLink")
          .values(
            links.map(({ seq, hash }, n) => ({
              seq,
              hash: Buffer.from(hash, "hex"),
              auditId: BigInt(rows[n]?.id ?? 0),
            })),
          )
          .execute();
        return rows.length;
      }),

    async rows(after, last, limit) {
      const rows = await contents(db)
        .innerJoin("auditLink", "auditLink.auditId", "audit.auditId")
        .select(["auditLink.seq", "auditLink.hash"])
        .where("auditLink.seq", ">", after)
        .where("auditLink.seq", "<=", last)
        .orderBy("auditLink.seq")
        .limit(limit)
        .execute();
      return rows.map(({ seq, hash, ...content }) => ({ seq, hash: hash.toString("hex"), content }));
    },

    async linkAt(at) {
      let query = db.selectFrom("auditLink").select(["seq", "hash"]).orderBy("seq", "desc").limit(1);
      if (at && "seq" in at) query = query.where("seq", "<=", at.seq);
      else if (at) query = query.where("sealedAt", "<", new Date(at.sealedBeforeMs));
      return linkOf(await query.executeTakeFirst());
    },

    async delivered(receiver) {
      const row = await db
        .selectFrom("auditDelivery")
        .select("seq")
        .where("receiver", "=", receiver)
        .executeTakeFirst();
      return row?.seq ?? 0n;
    },

    async noteDelivered(receiver, from, to) {
      await db
        .insertInto("auditDelivery")
        .values({ receiver, seq: to })
        .onConflict((on) =>
          on.column("receiver").doUpdateSet({ seq: to, at: sql<Date>`now()` }).where("auditDelivery.seq", "=", from),
        )
        .execute();
    },
  });
}

const linkOf = (row: { readonly seq: bigint; readonly hash: Buffer } | undefined): AuditLink => ({
  seq: row?.seq ?? 0n,
  hash: row?.hash.toString("hex") ?? "0".repeat(64),
});

async function isOnlySealer(trx: Trx): Promise<boolean> {
  const { rows } = await sql<{ isFree: boolean }>`
    select pg_try_advisory_xact_lock(hashtextextended('stoker audit chain', 0)) as is_free`.execute(trx);
  return rows[0]?.isFree === true;
}

async function headOf(trx: Trx): Promise<AuditLink> {
  return linkOf(
    await trx.selectFrom("auditLink").select(["seq", "hash"]).orderBy("seq", "desc").limit(1).executeTakeFirst(),
  );
}

/** Rows up to this id are sealed. */
async function floorOf(trx: Trx, head: AuditLink): Promise<bigint> {
  if (head.seq <= lateIds) return 0n;
  const row = await trx
    .selectFrom("auditLink")
    .select("auditId")
    .where("seq", "=", head.seq - lateIds)
    .executeTakeFirstOrThrow();
  return row.auditId - lateIds;
}

const contents = (db: Db | Trx) =>
  db
    .selectFrom("audit")
    .select(["actor", "action", "subject", "accountId as account", "ip", "note"])
    .select([
      sql<string>`audit.audit_id::text`.as("id"),
      sql<string>`to_char(audit.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`.as("at"),
      sql<string>`audit.before::text`.as("before"),
      sql<string>`audit.after::text`.as("after"),
    ]);
