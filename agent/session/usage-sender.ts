// Sends usage records until a control plane acknowledges them: one batch in flight, sent again without a reply. Records that a
// reply leaves out (a lost attempt still waits for its count) are sent again later and delay no other record.
import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import { firstBatch, maxBatchRecords, type PendingRecord } from "../../proto/usage-record.ts";
import type { UsageSpool } from "../ingress/spool.ts";

const resendMs = 30_000;
const retryMs = 1_000;
const lookAgainMs = 5_000;
/** Delay before a record that a reply left out is sent again. */
const leftOutMs = 5_000;
/** With this many left out the control plane settles nothing now: send nothing more before they are due again. */
const maxLeftOut = 2 * maxBatchRecords;

export function createUsageSender(
  spool: Pick<UsageSpool, "pending" | "acknowledge" | "depth">,
  send: (records: readonly PendingRecord[]) => void,
  log: Logger,
) {
  let isWanted = true;
  let wakeUp = () => {};
  let answer: readonly string[] | undefined;
  let isInFlight = false;
  /** Spool ids of records left out, with the time they are due again; oldest first. */
  const leftOut = new Map<string, number>();

  /** Ends with the next wake or acknowledgement. */
  const sleep = (ms: number | undefined, signal: AbortSignal) => pause(ms, signal, (end) => (wakeUp = end));

  async function next(): Promise<readonly PendingRecord[]> {
    const nowMs = performance.now();
    for (const [id, dueMs] of leftOut) if (dueMs <= nowMs) leftOut.delete(id);
    if (leftOut.size >= maxLeftOut) return [];
    const found = await spool.pending(maxBatchRecords + leftOut.size);
    return firstBatch(found.filter((record) => !leftOut.has(record.spoolId)));
  }

  async function sendBatch(signal: AbortSignal): Promise<void> {
    isWanted = false;
    const records = await next();
    if (records.length === 0) {
      const [dueMs] = leftOut.values();
      if (dueMs === undefined) return;
      isWanted = true;
      return sleep(Math.max(0, dueMs - performance.now()), signal);
    }
    isWanted = true;
    answer = undefined;
    send(records);
    isInFlight = true;
    if (answer === undefined) await sleep(resendMs, signal);
    isInFlight = false;
    if (answer !== undefined) return keepLeftOut(records, answer);
    if (!signal.aborted)
      log.warn({ records: records.length }, "usage was not acknowledged in time; will send it again");
  }

  async function keepLeftOut(sent: readonly PendingRecord[], durable: readonly string[]): Promise<void> {
    const gone = new Set(durable);
    const dueMs = performance.now() + leftOutMs;
    for (const { spoolId } of sent) if (!gone.has(spoolId)) leftOut.set(spoolId, dueMs);
    if (durable.length > 0) await spool.acknowledge(durable);
  }

  return {
    wake() {
      isWanted = true;
      // While a batch is in flight, wait only for its reply: hundreds of records can become pending per second.
      if (!isInFlight) wakeUp();
    },
    /** Called with the reply to a batch: its durable records. */
    acknowledged(spoolIds: readonly string[]) {
      answer = [...(answer ?? []), ...spoolIds];
      wakeUp();
    },
    async run(signal: AbortSignal) {
      isWanted = true;
      while (!signal.aborted) {
        try {
          if (!isWanted) {
            // A periodic check in case a wake-up was missed.
            await sleep(spool.depth().records > 0 ? lookAgainMs : undefined, signal);
            isWanted = true;
          }
          if (!signal.aborted) await sendBatch(signal);
        } catch (error) {
          log.warn({ err: error }, "could not read the usage spool; will retry");
          await sleep(retryMs, signal);
        }
      }
    },
  };
}
