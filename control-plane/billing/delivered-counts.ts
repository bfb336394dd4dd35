import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { DeliveredCount, DeliveredCounts } from "./delivered.ts";
import type { BillingMetrics } from "./metrics.ts";
import { moneyRules } from "./post.ts";
import { recordKey } from "./record.ts";
import type { SettlementStore } from "./store.ts";

const queueLimit = 10_000;
const groupSize = 200;
const retryMs = 500;

export interface DeliveredCountsDeps {
  readonly store: SettlementStore;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
}

/** Writes counts at once, in groups, and again until they stand; a record settled before its count is corrected. */
export function createDeliveredCounts(deps: DeliveredCountsDeps): DeliveredCounts & { stop(): Promise<void> } {
  const queue = new Map<string, DeliveredCount>();
  const stopping = new AbortController();
  let running: Promise<void> | undefined;

  async function drain(): Promise<void> {
    while (queue.size > 0) {
      const group = [...queue.entries()].slice(0, groupSize);
      try {
        const counts = group.map(([, count]) => count);
        const { postings } = await deps.store.settle({ records: [], counts }, moneyRules);
        for (const { loss, lossReason } of postings?.entries ?? []) if (lossReason) deps.metrics.lost(loss, lossReason);
        for (const [key, count] of group) if (queue.get(key) === count) queue.delete(key);
      } catch (error) {
        deps.log.warn({ err: error, counts: queue.size }, "delivered counts not written yet");
        if (stopping.signal.aborted) return;
        await wait(retryMs, undefined, { signal: stopping.signal }).catch(() => {});
      }
    }
  }

  function wake(): void {
    running ??= drain().finally(() => {
      running = undefined;
      if (queue.size > 0 && !stopping.signal.aborted) wake();
    });
  }

  return {
    report(count) {
      if (queue.size >= queueLimit) {
        deps.log.error(
          { requestId: count.requestId },
          "too many delivered counts wait; this attempt will cost nothing if its record is lost",
        );
        return;
      }
      queue.set(recordKey(count.requestId, count.attempt), count);
      wake();
    },
    /** Tries once more to write what waits. */
    async stop() {
      stopping.abort();
      await running;
      if (queue.size > 0) await drain();
    },
  };
}
