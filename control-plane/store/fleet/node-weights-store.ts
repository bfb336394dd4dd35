import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AskedWeights, NodeWeights, NodeWeightsStore } from "../../fleet/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { writeAudit } from "../people/audit-rows.ts";

export function createNodeWeightsStore(db: Kysely<Database>): NodeWeightsStore {
  return asked<NodeWeightsStore>({
    ask: (host, id, request, who) =>
      inTransaction(db, async (trx) => {
        if (!(await changed(trx, host))) return undefined;
        const row = await trx
          .insertInto("nodeWeights")
          .values({ prefetchId: id, hostId: host, ...columnsOf(request) })
          .onConflict((at) =>
            at.columns(["hostId", "repo", "revision", "file", "format"]).doUpdateSet({ pinned: request.isPinned }),
          )
          .returningAll()
          .executeTakeFirstOrThrow();
        const act = { actor: who.by, ip: who.ip, subject: host, account: null };
        await writeAudit(trx, { ...act, action: "node.prefetch", after: { ...request } });
        await announce(trx, "host", host);
        return nodeWeights(row);
      }),

    async list(host) {
      const known = await db.selectFrom("host").select("hostId").where("hostId", "=", host).executeTakeFirst();
      return known && (await nodeWeightsOf(db, host));
    },

    drop: (host, id, who) =>
      inTransaction(db, async (trx) => {
        // Hosts first, in the order all writers use.
        if (!(await changed(trx, host))) return false;
        const row = await trx
          .deleteFrom("nodeWeights")
          .where("hostId", "=", host)
          .where("prefetchId", "=", id)
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
    .selectFrom("nodeWeights")
    .selectAll()
    .where("hostId", "=", host)
    .orderBy("createdAt")
    .orderBy("prefetchId")
    .execute();
  return rows.map(nodeWeights);
}

/** The host's desired set has another generation. False when there is no such host. */
async function changed(trx: Transaction<Database>, host: string): Promise<boolean> {
  const moved = await trx
    .updateTable("host")
    .set((eb) => ({ generation: eb("generation", "+", 1n) }))
    .where("hostId", "=", host)
    .executeTakeFirst();
  return moved.numUpdatedRows > 0n;
}

const columnsOf = ({ isPinned, ...request }: AskedWeights) => ({ ...request, pinned: isPinned });

function nodeWeights(row: Selectable<Database["nodeWeights"]>): NodeWeights {
  return {
    id: row.prefetchId,
    repo: row.repo,
    revision: row.revision,
    file: row.file,
    format: row.format,
    isPinned: row.pinned,
    commit: row.commit,
    bytes: row.bytes,
    bytesTotal: row.bytesTotal,
    failCode: row.failCode,
    failMessage: row.failMessage,
    createdAtMs: row.createdAt.getTime(),
  };
}
