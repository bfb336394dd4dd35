import type { Transaction } from "kysely";
import { type HostId, randomId } from "../../../proto/ids.ts";
import { steadyTime } from "../../../proto/steady-time.ts";
import type { Database } from "../core/schema.ts";

/** A host starts no command after this, and aborts one that takes longer. */
const deadlineMs = 3_600_000;

/** Stores a command that the host runs once; returns its id. Announce the host last. */
export async function putCommand(
  trx: Transaction<Database>,
  host: HostId,
  kind: string,
  given: object,
): Promise<string> {
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
