import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { DeliveredCount, DeliveredCounts } from "./delivered.ts";
import type { BillingMetrics } from "./metrics.ts";
import { moneyRules } from "./post.ts";
import { recordKey } from "./record.ts";
import { isAwayError } from "./settle.ts";
import type { CountStore, SettlementStore } from "./store.ts";

const queueLimit = 10_000;
const groupSize = 200;
const retryMs = 500;
/** Of a count that PostgreSQL was there for and would not take. */
const mostTries = 20;

export interface DeliveredCountsDeps {
  readonly store: SettlementStore;
  readonly counts: Pick<CountStore, "keepLost">;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
}

type Queued = readonly [key: string, count: DeliveredCount];

/** Writes counts at once, in groups, and again until they stand; a record settled before its count is corrected. */
export function createDeliveredCounts(deps: DeliveredCountsDeps): DeliveredCounts & { stop(): Promise<void> } {
  const queue = new Map<string, DeliveredCount>();
  const tries = new Map<string, number>();
  const stopping = new AbortController();
  let running: Promise<void> | undefined;

  async function drain(): Promise<void> {
    while (queue.size > 0) {
      const group = [...queue.entries()].slice(0, groupSize);
      const failure = await write(group);
      if (failure === undefined) continue;
      deps.log.warn({ err: failure, counts: queue.size }, "delivered counts not written yet");
      if (stopping.signal.aborted) return;
      await wait(retryMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  }

  /** Returns why some of them still wait. */
  async function write(group: readonly Queued[]): Promise<unknown> {
    const counts = group.map(([, count]) => count);
    try {
      const { postings } = await deps.store.settle({ records: [], counts }, moneyRules);
      for (const { loss, lossReason } of postings?.entries ?? []) if (lossReason) deps.metrics.lost(loss, lossReason);
      // After the money: a count that dies in between is released in a day, and none is kept that was never posted.
      await deps.counts.keepLost(counts);
    } catch (error) {
      if (isAwayError(error)) return error;
      const [only] = group;
      if (group.length === 1 && only) return putBack(only, error);
      // One poisoned count must not hold up the others of its group.
      let failure: unknown;
      for (const one of group) failure = (await write([one])) ?? failure;
      return failure;
    }
    for (const [key, count] of group) {
      tries.delete(key);
      if (queue.get(key) === count) queue.delete(key);
    }
    return undefined;
  }

  /** Behind the others; given up after a while. */
  function putBack([key, count]: Queued, error: unknown): unknown {
    const tried = (tries.get(key) ?? 0) + 1;
    queue.delete(key);
    if (tried < mostTries) {
      tries.set(key, tried);
      queue.set(key, count);
      return error;
    }
    tries.delete(key);
    deps.log.error(
      { err: error, requestId: count.requestId },
      "a delivered count cannot be written; its record bills alone",
    );
    return undefined;
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
