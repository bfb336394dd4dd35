import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AskedWeights, NodeWeights, NodeWeightsStore } from "../fleet/store.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

export function createNodeWeightsStore(db: Kysely<Database>): NodeWeightsStore {
  return asked<NodeWeightsStore>({
    ask: (host, id, wish, who) =>
      inTransaction(db, async (trx) => {
        if (!(await changed(trx, host))) return undefined;
        const row = await trx
          .insertInto("node_weights")
          .values({ prefetch_id: id, host_id: host, ...columnsOf(wish) })
          .onConflict((at) =>
            at.columns(["host_id", "repo", "revision", "file", "format"]).doUpdateSet({ pinned: wish.isPinned }),
          )
          .returningAll()
          .executeTakeFirstOrThrow();
        const act = { actor: who.by, ip: who.ip, subject: host, account: null };
        await writeAudit(trx, { ...act, action: "node.prefetch", after: { ...wish } });
        await announce(trx, "host", host);
        return nodeWeights(row);
      }),

    async list(host) {
      const known = await db.selectFrom("host").select("host_id").where("host_id", "=", host).executeTakeFirst();
      return known && (await nodeWeightsOf(db, host));
    },

    drop: (host, id, who) =>
      inTransaction(db, async (trx) => {
        // Hosts first, in the order all writers use.
        if (!(await changed(trx, host))) return false;
        const row = await trx
          .deleteFrom("node_weights")
          .where("host_id", "=", host)
          .where("prefetch_id", "=", id)
          .returning(["repo", "revision", "file", "format", "pinned"])
          .executeTakeFirst();
        if (!row) return false;
        await writeAudit(trx, {
          actor: who.by,
          ip: who.ip,
          subject: host,
          account: null,
          action: "node.prefetch_drop",
          before: row,
        });
        await announce(trx, "host", host);
        return true;
      }),

    async observe(session, news) {
      const rows = news.map(({ id, bytes, bytesTotal, ...rest }) => ({
        id,
        bytes: bytes.toString(),
        total: bytesTotal.toString(),
        commit: rest.commit,
        code: rest.failCode,
        message: rest.failMessage,
      }));
      await sql`
        update node_weights n set commit = s.commit, bytes = s.bytes, bytes_total = s.total,
          fail_code = s.code, fail_message = s.message
        from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
            as s (id text, commit text, bytes bigint, total bigint, code text, message text),
          host h
        where n.prefetch_id = s.id and n.host_id = ${session.hostId}
          and h.host_id = n.host_id and h.node_epoch = ${session.nodeEpoch}`.execute(db);
    },
  });
}

/** Oldest first. */
export async function nodeWeightsOf(
  db: Kysely<Database> | Transaction<Database>,
  host: string,
): Promise<readonly NodeWeights[]> {
  const rows = await db
    .selectFrom("node_weights")
    .selectAll()
    .where("host_id", "=", host)
    .orderBy("created_at")
    .orderBy("prefetch_id")
    .execute();
  return rows.map(nodeWeights);
}

/** The host's desired set has another generation. False when there is no such host. */
async function changed(trx: Transaction<Database>, host: string): Promise<boolean> {
  const moved = await trx
    .updateTable("host")
    .set((eb) => ({ generation: eb("generation", "+", 1n) }))
    .where("host_id", "=", host)
    .executeTakeFirst();
  return moved.numUpdatedRows > 0n;
}

const columnsOf = ({ isPinned, ...wish }: AskedWeights) => ({ ...wish, pinned: isPinned });

function nodeWeights(row: Selectable<Database["node_weights"]>): NodeWeights {
  return {
    id: row.prefetch_id,
    repo: row.repo,
    revision: row.revision,
    file: row.file,
    format: row.format,
    isPinned: row.pinned,
    commit: row.commit,
    bytes: row.bytes,
    bytesTotal: row.bytes_total,
    failCode: row.fail_code,
    failMessage: row.fail_message,
    createdAtMs: row.created_at.getTime(),
  };
}
