import type { Transaction } from "kysely";
import { randomId } from "../../proto/ids.ts";
import type { Database } from "./schema.ts";

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
    .insertInto("host_command")
    .values({
      command_id: id,
      host_id: host,
      instance_id: "",
      generation: 0n,
      outcome: null,
      error_code: "",
      error_message: "",
      result: null,
      finished_at: null,
      kind,
      arguments: JSON.stringify(given),
      deadline_at: new Date(Date.now() + deadlineMs),
    })
    .execute();
  return id;
}
