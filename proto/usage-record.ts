// The usage record as agents write it down and send it: JSON, an array a batch. Decoding it as a protocol buffer costs three
// times as much on both sides. Fields are only ever added; one that is left out is 0 or empty.

/** A whole number that is not negative; as text where an agent kept it so. */
type Count = number | string;

export interface UsageRecord {
  readonly requestId: string;
  readonly attempt: number;
  readonly admittedAtMs: Count;
  readonly endedAtMs: Count;
  readonly instanceId: string;
  readonly deployId: string;
  readonly nodeEpoch: string;
  readonly leaseIds: readonly string[];
  readonly source: string;
  readonly endReason: string;
  readonly accountId?: string;
  readonly keyId?: string;
  readonly replicaId?: string;
  readonly model?: string;
  readonly holdNanoUsd?: string;
  readonly inputTokens?: Count;
  readonly cachedInputTokens?: Count;
  readonly outputTokens?: Count;
  readonly reasoningTokens?: Count;
  readonly priceVersion?: Count;
  /** Rates: nano-USD per million. */
  readonly inputRate?: string;
  readonly cachedInputRate?: string;
  readonly outputRate?: string;
  /** The discount inside the rates; empty: none. */
  readonly discountId?: string;
  readonly queueMs?: number;
  readonly firstByteMs?: number;
  readonly totalMs?: number;
  /**
   * A minute of GPU time instead of a request (proto/gpu-minute.ts): how long of it the instance was ready. The control plane
   * knows whose it is and what it costs, so account, model and rates are left out.
   */
  readonly readyMs?: number;
  // Of tasks that are not billed by tokens alone.
  /** Of spoken text. */
  readonly characters?: Count;
  /** Of audio heard. */
  readonly audioMs?: Count;
  /** Images made. */
  readonly images?: Count;
  /** Width x height x steps, summed over the images; 0 unknown. */
  readonly imagePixelSteps?: Count;
  /** Inputs embedded, documents ranked, texts classified; shown, not billed. */
  readonly items?: Count;
  readonly characterRate?: string;
  /** Per million milliseconds. */
  readonly audioRate?: string;
  readonly imageRate?: string;
  /** Pixel steps of an image at that rate; 0: every image costs the same. */
  readonly imageUnit?: Count;
}

/** In an agent's spool: as the text it is kept as. */
export interface PendingRecord {
  /** Digits; acknowledged by this. */
  readonly spoolId: string;
  /** JSON of a UsageRecord. */
  readonly json: string;
}

/** As it comes out of a batch. */
export interface SpooledRecord extends UsageRecord {
  readonly spoolId: Count;
}

/** Of texts that are joined, not of objects that are written once more. */
export const writeUsageBatch = (records: readonly PendingRecord[]): string =>
  `[${records.map(({ spoolId, json }) => `{"spoolId":${spoolId},${json.slice(1)}`).join()}]`;

/**
 * The records of a batch, each with an id to acknowledge; what their fields hold is for the reader to check. Throws
 * SyntaxError for anything else.
 */
export function readUsageBatch(json: string): readonly SpooledRecord[] {
  const records: unknown = JSON.parse(json);
  if (!Array.isArray(records) || !records.every(hasSpoolId))
    throw new SyntaxError("this is not a batch of usage records");
  return records;
}

function hasSpoolId(record: unknown): record is SpooledRecord {
  return (
    typeof record === "object" && record !== null && "spoolId" in record && /^\d{1,19}$/.test(String(record.spoolId))
  );
}
