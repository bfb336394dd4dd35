// Usage records leave here until a control plane acknowledges them: one batch in flight, sent again when no answer comes.
// What an answer leaves out (a lost attempt still waits for its count) comes again later and holds up no other record.
import type { Logger } from "pino";
import type { PendingRecord } from "../../proto/usage-record.ts";

/** The part of the spool that a session needs. */
export interface PendingUsage {
  pending(limit: number): Promise<readonly PendingRecord[]>;
  acknowledge(spoolIds: readonly string[]): Promise<void>;
  onPending(listener: () => void): void;
  openLeaseIds(): Promise<readonly string[]>;
  depth(): { readonly records: number };
}

export interface UsageSender {
  /** A record became pending. */
  wake(): void;
  /** The answer to a batch: what of it is durable. */
  acknowledged(spoolIds: readonly string[]): void;
  /** Until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

const batchSize = 500;
const resendMs = 30_000;
const retryMs = 1_000;
const lookAgainMs = 5_000;
/** Until a record that an answer left out is sent again. */
const leftOutMs = 5_000;
/** With this many left out the control plane settles nothing at present: nothing more is sent before they are due again. */
const mostLeftOut = 2 * batchSize;

export function createUsageSender(
  spool: PendingUsage,
  send: (records: readonly PendingRecord[]) => void,
  log: Logger,
): UsageSender {
  let isWanted = true;
  let wakeUp = () => {};
  let answer: readonly string[] | undefined;
  let isInFlight = false;
  /** Spool ids of records left out, with the time they are due again; oldest first. */
  const leftOut = new Map<string, number>();

  /** Ends with the next wake or acknowledgement. */
  const pause = (ms: number | undefined, signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        wakeUp = () => {};
        resolve();
      };
      const timer = ms === undefined ? undefined : setTimeout(end, ms);
      signal.addEventListener("abort", end, { once: true });
      wakeUp = end;
      if (signal.aborted) end();
    });

  /** What is due, at most a batch. */
  async function next(): Promise<readonly PendingRecord[]> {
    const nowMs = performance.now();
    for (const [id, dueMs] of leftOut) if (dueMs <= nowMs) leftOut.delete(id);
    if (leftOut.size >= mostLeftOut) return [];
    const found = await spool.pending(batchSize + leftOut.size);
    return found.filter((record) => !leftOut.has(record.spoolId)).slice(0, batchSize);
  }

  async function sendBatch(signal: AbortSignal): Promise<void> {
    isWanted = false;
    const records = await next();
    if (records.length === 0) {
      const [dueMs] = leftOut.values();
      if (dueMs === undefined) return;
      isWanted = true;
      return pause(Math.max(0, dueMs - performance.now()), signal);
    }
    isWanted = true;
    answer = undefined;
    send(records);
    isInFlight = true;
    if (answer === undefined) await pause(resendMs, signal);
    isInFlight = false;
    if (answer !== undefined) return keepLeftOut(records, answer);
    if (!signal.aborted) log.warn({ records: records.length }, "usage was not acknowledged in time; it is sent again");
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
      // A batch under way waits for its answer alone: records come by the hundred a second.
      if (!isInFlight) wakeUp();
    },
    acknowledged(spoolIds) {
      answer = [...(answer ?? []), ...spoolIds];
      wakeUp();
    },
    async run(signal) {
      isWanted = true;
      while (!signal.aborted) {
        try {
          if (!isWanted) {
            // Being woken is the fast way; a look now and then is the net below it.
            await pause(spool.depth().records > 0 ? lookAgainMs : undefined, signal);
            isWanted = true;
          }
          if (!signal.aborted) await sendBatch(signal);
        } catch (error) {
          log.warn({ err: error }, "the usage spool cannot be read; it is tried again");
          await pause(retryMs, signal);
        }
      }
    },
  };
}
