import { type Kysely, sql } from "kysely";
import type { CommandStore } from "../fleet/store.ts";
import { asked } from "./asked.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

export function createCommandStore(db: Kysely<Database>): CommandStore {
  return asked<CommandStore>({
    async pending(host) {
      const open = db.selectFrom("host_command").selectAll().where("host_id", "=", host).where("outcome", "is", null);
      const rows = await open.orderBy("created_at").limit(100).execute();
      return rows.map((row) => ({
        id: row.command_id,
        instanceId: row.instance_id,
        generation: row.generation,
        kind: row.kind,
        arguments: row.arguments,
        deadlineMs: row.deadline_at.getTime(),
      }));
    },

    finish: (host, done) =>
      inTransaction(db, async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("host_command")
          .set({
            outcome: done.outcome,
            error_code: done.errorCode,
            error_message: done.errorMessage,
            result: JSON.stringify(done.result ?? null),
            finished_at: sql`now()`,
          })
          .where("command_id", "=", done.id)
          .where("host_id", "=", host)
          .where("outcome", "is", null)
          .executeTakeFirst();
        if (numUpdatedRows > 0n) await announce(trx, "command", done.id);
      }),
  });
}
