// A settled request as the server would have written it, where no model is served.
import { pino } from "pino";
import { openDatabase } from "../../control-plane/store/database.ts";

/** Its id. */
export async function makeRequest(databaseUrl: string, account_id: string): Promise<string> {
  const { db, close } = openDatabase(databaseUrl, { maxConnections: 1, log: pino({ level: "silent" }) });
  const request_id = "AdasSettledRequest000000";
  const figures = { input_tokens: 1n, cached_input_tokens: 0n, output_tokens: 1n, reasoning_tokens: 0n };
  const money = {
    hold: 0n,
    price_version: 0n,
    input_rate: 0n,
    cached_input_rate: 0n,
    output_rate: 0n,
    cost: 0n,
    charge: 0n,
  };
  const times = { admitted_at: new Date(), ended_at: new Date(), queue_ms: 0, first_byte_ms: 1, total_ms: 2 };
  const where = { key_id: "", replica_id: "", model: "m", deploy_id: "", instance_id: "", node_epoch: 1n };
  await db
    .insertInto("usage")
    .values({
      ...{ ...figures, ...money, ...times, ...where, request_id, account_id },
      attempt: 1,
      lease_ids: [],
      source: "engine",
      end_reason: "stop",
      discount_id: null,
    })
    .execute();
  await close();
  return request_id;
}
