import { describe, expect, it } from "vitest";
import {
  firstBatch,
  maxBatchBytes,
  maxBatchRecords,
  readUsageBatch,
  writeUsageBatch,
} from "../../../proto/usage-record.ts";
import { ticketFor } from "../../fakes/data-path.ts";
import { sealedText } from "../../fakes/seals.ts";
import { spooled } from "../../fakes/usage-record.ts";

/** Every field that an agent can write, at its longest. */
const longest = (spoolId: number) =>
  spooled(9_000_000_000_000_000 + spoolId, {
    requestId: "r".repeat(64),
    endedAtMs: 1_800_000_000_000,
    nodeEpoch: "123456789012345678",
    source: "engine_usage_rejected",
    endReason: "client_disconnected",
    inputTokens: 1_000_000,
    cachedInputTokens: 1_000_000,
    outputTokens: 1_000_000,
    reasoningTokens: 1_000_000,
    queueMs: 600_000,
    firstByteMs: 600_000,
    totalMs: 600_000,
    characters: 1_000_000,
    audioMs: 1_000_000,
    images: 100,
    imagePixelSteps: 1_000_000_000,
    items: 1_000,
    ticket: sealedText(ticketFor({ hostId: "host", leaseIds: ["l".repeat(22), "m".repeat(22), "n".repeat(22)] })),
  });

describe("a batch of usage records", () => {
  it("holds 500 records with every field an agent writes, and uses less than half of the allowed bytes", () => {
    const batch = firstBatch(Array.from({ length: 700 }, (_, i) => longest(i)));
    expect(batch).toHaveLength(maxBatchRecords);
    const text = writeUsageBatch(batch);
    expect(Buffer.byteLength(text)).toBeLessThan(maxBatchBytes / 2);
    expect(readUsageBatch(text)).toHaveLength(maxBatchRecords);
  });

  it("holds fewer records where they are large, and at least one", () => {
    const large = Array.from({ length: 10 }, (_, i) => spooled(i, { ticket: "é".repeat(250_000) }));
    const batch = firstBatch(large);
    expect(batch.map(({ spoolId }) => spoolId)).toEqual(["0", "1", "2", "3"]);
    expect(Buffer.byteLength(writeUsageBatch(batch))).toBeLessThanOrEqual(maxBatchBytes);
    expect(readUsageBatch(writeUsageBatch(batch))).toHaveLength(4);
    expect(firstBatch([spooled(1, { ticket: "x".repeat(maxBatchBytes) })])).toHaveLength(1);
    expect(firstBatch([])).toEqual([]);
  });
});
