// A settled request as the server would have written it, where no model is served.
import { pino } from "pino";
import { openDatabase } from "../../control-plane/store/core/database.ts";

/** Its id. */
export async function makeRequest(databaseUrl: string, accountId: string): Promise<string> {
  const { db, close } = openDatabase(databaseUrl, { maxConnections: 1, log: pino({ level: "silent" }) });
  const requestId = "AdasSettledRequest000000";
  const figures = { inputTokens: 1n, cachedInputTokens: 0n, outputTokens: 1n, reasoningTokens: 0n };
  const money = {
    hold: 0n,
    priceVersion: 0n,
    inputRate: 0n,
    cachedInputRate: 0n,
    outputRate: 0n,
    cost: 0n,
    charge: 0n,
  };
  const times = { admittedAt: new Date(), endedAt: new Date(), queueMs: 0, firstByteMs: 1, totalMs: 2 };
  const where = { keyId: "", replicaId: "", model: "m", deployId: "", instanceId: "", nodeEpoch: 1n };
  await db
    .insertInto("usage")
    .values({
      ...{ ...figures, ...money, ...times, ...where, requestId, accountId },
      attempt: 1,
      leaseIds: [],
      source: "engine",
      endReason: "stop",
      discountId: null,
    })
    .execute();
  await close();
  return requestId;
}
