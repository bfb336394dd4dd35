import type { PendingRecord, SpooledRecord, UsageRecord } from "../../proto/usage-record.ts";

/** The least a record says; for tests that only pass it on. */
export const anyRecord = (change: Partial<UsageRecord> = {}): UsageRecord => ({
  requestId: "r",
  attempt: 1,
  endedAtMs: 0,
  nodeEpoch: "1",
  source: "engine",
  endReason: "stop",
  ...change,
});

export const spooled = (spoolId: number | string, change: Partial<UsageRecord> = {}): PendingRecord => ({
  spoolId: String(spoolId),
  json: JSON.stringify(anyRecord(change)),
});

/** What a spool holds, read. */
export async function pendingRecords(
  spool: { pending(limit: number): Promise<readonly PendingRecord[]> },
  limit: number,
): Promise<SpooledRecord[]> {
  return (await spool.pending(limit)).map(({ spoolId, json }) => ({ ...(JSON.parse(json) as UsageRecord), spoolId }));
}
