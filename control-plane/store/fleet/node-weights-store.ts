import { sql } from "kysely";
import type { HostId } from "../../../proto/ids.ts";
import type { NodeWeights, NodeWeightsStore } from "../../fleet/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { bumpHost } from "../deployments/deployment-changes.ts";

/** Columns of NodeWeights. */
const weightsColumns = [
  "prefetchId as id",
  "repo",
  "revision",
  "file",
  "format",
  "pinned as isPinned",
  "commit",
  "bytes",
  "bytesTotal",
  "failCode",
  "failMessage",
  epochMs("createdAt").as("createdAtMs"),
] as const;

export function createNodeWeightsStore(db: Db): NodeWeightsStore {
  return asked<NodeWeightsStore>({
    ask: (host, id, { isPinned, ...weights }, act) =>
      inTransaction(db, async (trx) => {
        if (!(await bumpHost(trx, host))) return undefined;
        const row = await trx
          .insertInto("nodeWeights")
          .values({ prefetchId: id, hostId: host, pinned: isPinned, ...weights })
          .onConflict((at) =>
            at.columns(["hostId", "repo", "revision", "file", "format"]).doUpdateSet({ pinned: isPinned }),
          )
          .returning(weightsColumns)
          .executeTakeFirstOrThrow();
        const after = { ...weights, isPinned };
        await auditAct(trx, act, { action: "node.prefetch", subject: host, account: null, after });
        await announce(trx, "host", host);
        return row;
      }),

    async list(host) {
      const known = await db.selectFrom("host").select("hostId").where("hostId", "=", host).executeTakeFirst();
      return known && (await nodeWeightsOf(db, host));
    },

    drop: (host, id, act) =>
      inTransaction(db, async (trx) => {
        // Locks the host first, as all writers do.
        if (!(await bumpHost(trx, host))) return false;
        const row = await trx
          .deleteFrom("nodeWeights")
          .where("hostId", "=", host)
          .where("prefetchId", "=", id)
          .returning(["repo", "revision", "file", "format", "pinned"])
          .executeTakeFirst();
        if (!row) return false;
        await auditAct(trx, act, { action: "node.prefetch_drop", subject: host, account: null, before: row });
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
export const nodeWeightsOf = (db: Db, host: HostId): Promise<readonly NodeWeights[]> =>
  db
    .selectFrom("nodeWeights")
    .select(weightsColumns)
    .where("hostId", "=", host)
    .orderBy("createdAt")
    .orderBy("prefetchId")
    .execute();
