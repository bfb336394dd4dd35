import type { Transaction } from "kysely";
import { randomId } from "../../../proto/ids.ts";
import { steadyTime } from "../../../proto/steady-time.ts";
import type { Database } from "../core/schema.ts";

/** A host begins nothing after it, and ends what takes longer. */
const deadlineMs = 3_600_000;

/** For the host to do once; its id. Announce the host last. */
export async function putCommand(
  trx: Transaction<Database>,
  host: string,
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
