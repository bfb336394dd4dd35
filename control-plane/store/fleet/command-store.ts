import { type HostId, randomId } from "../../../proto/ids.ts";
import { steadyTime } from "../../../proto/steady-time.ts";
import type { CommandStore } from "../../fleet/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";

export function createCommandStore(db: Db): CommandStore {
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
          .set({ ...outcome, result: JSON.stringify(result ?? null), finishedAt: now })
          .where("commandId", "=", id)
          .where("hostId", "=", host)
          .where("outcome", "is", null)
          .executeTakeFirst();
        if (numUpdatedRows > 0n) await announce(trx, "command", id);
      }),
  });
}

/** A host starts no command after this, and aborts one that takes longer. */
const deadlineMs = 3_600_000;

/** Stores a command that the host runs once; returns its id. Announce the host last. */
export async function putCommand(trx: Trx, host: HostId, kind: string, given: object): Promise<string> {
  const id = randomId(20);
  await trx
    .insertInto("hostCommand")
    .values({
      commandId: id,
      hostId: host,
      instanceId: "",
      generation: 0n,
      outcome: null,
      errorCode: "",
      errorMessage: "",
      result: null,
      finishedAt: null,
      kind,
      arguments: JSON.stringify(given),
      deadlineAt: new Date(steadyTime.nowMs() + deadlineMs),
    })
    .execute();
  return id;
}
