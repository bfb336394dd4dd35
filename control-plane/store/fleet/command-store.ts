import { type Kysely, sql } from "kysely";
import type { CommandStore } from "../../fleet/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";

export function createCommandStore(db: Kysely<Database>): CommandStore {
  return asked<CommandStore>({
    pending: (host) =>
      db
        .selectFrom("hostCommand")
        .select(["commandId as id", "instanceId", "generation", "kind", "arguments"])
        .select(epochMs("deadlineAt").as("deadlineMs"))
        .where("hostId", "=", host)
        .where("outcome", "is", null)
        .orderBy("createdAt")
        .limit(100)
        .execute(),

    finish: (host, { id, result, ...outcome }) =>
      inTransaction(db, async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("hostCommand")
          .set({ ...outcome, result: JSON.stringify(result ?? null), finishedAt: sql`now()` })
          .where("commandId", "=", id)
          .where("hostId", "=", host)
          .where("outcome", "is", null)
          .executeTakeFirst();
        if (numUpdatedRows > 0n) await announce(trx, "command", id);
      }),
  });
}
