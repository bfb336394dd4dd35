import { type Kysely, sql } from "kysely";
import type { CommandStore } from "../../fleet/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";

export function createCommandStore(db: Kysely<Database>): CommandStore {
  return asked<CommandStore>({
    async pending(host) {
      const open = db.selectFrom("hostCommand").selectAll().where("hostId", "=", host).where("outcome", "is", null);
      const rows = await open.orderBy("createdAt").limit(100).execute();
      return rows.map((row) => ({
        id: row.commandId,
        instanceId: row.instanceId,
        generation: row.generation,
        kind: row.kind,
        arguments: row.arguments,
        deadlineMs: row.deadlineAt.getTime(),
      }));
    },

    finish: (host, done) =>
      inTransaction(db, async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("hostCommand")
          .set({
            outcome: done.outcome,
            errorCode: done.errorCode,
            errorMessage: done.errorMessage,
            result: JSON.stringify(done.result ?? null),
            finishedAt: sql`now()`,
          })
          .where("commandId", "=", done.id)
          .where("hostId", "=", host)
          .where("outcome", "is", null)
          .executeTakeFirst();
        if (numUpdatedRows > 0n) await announce(trx, "command", done.id);
      }),
  });
}
