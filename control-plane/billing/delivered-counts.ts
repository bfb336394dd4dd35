import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import { type Clock, systemClock } from "./clock.ts";
import { isInternalError, isOutage, maxInternalErrors } from "./database-failure.ts";
import type { CountReason, DeliveredCount, DeliveredCounts } from "./delivered.ts";
import type { BillingMetrics } from "./metrics.ts";
import { recordKey } from "./record.ts";
import type { CountStore, SettlementStore } from "./store.ts";
import { writeApart } from "./write-apart.ts";

/** Maximum waiting counts of one reason. */
const queueLimit = 10_000;
const groupSize = 200;
const retryMs = 500;
/** Maximum attempts for a count that PostgreSQL refuses while it accepts others. */
const maxTries = 20;
/** Minimum time between two log lines about dropped counts. */
const logEveryMs = 10_000;

export interface DeliveredCountsDeps {
  readonly store: SettlementStore;
  readonly counts: Pick<CountStore, "keepLost">;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
  readonly clock?: Clock;
}

type Queued = readonly [key: string, count: DeliveredCount];

type Queue = Map<string, DeliveredCount>;

/**
 * Writes counts at once, in groups, until they are stored; a record settled before its count is corrected. Counts of broken
 * replies have their own queue and are written first, so that overdue ones never take their space.
 */
export function createDeliveredCounts(deps: DeliveredCountsDeps): DeliveredCounts & { stop(): Promise<void> } {
  const clock = deps.clock ?? systemClock;
  const queues: Readonly<Record<CountReason, Queue>> = { broken: new Map(), overdue: new Map() };
  const tries = new Map<string, number>();
  const dropped: Record<CountReason, { count: number; nextLogMs: number }> = {
    broken: { count: 0, nextLogMs: Number.NEGATIVE_INFINITY },
    overdue: { count: 0, nextLogMs: Number.NEGATIVE_INFINITY },
  };
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  /** Consecutive groups that failed with an internal error of PostgreSQL. */
  let internalErrors = 0;

  const waiting = () => queues.broken.size + queues.overdue.size;

  async function drain(): Promise<void> {
    while (waiting() > 0) {
      const queue = queues.broken.size > 0 ? queues.broken : queues.overdue;
      const failure = await write(queue, [...queue.entries().take(groupSize)]);
      if (failure === undefined) continue;
      deps.log.warn({ err: failure, counts: waiting() }, "could not write delivered counts; will retry");
      if (stopping.signal.aborted) return;
      await pause(retryMs, stopping.signal);
    }
  }

  /** Returns the reason why some of them still wait. */
  async function write(queue: Queue, group: readonly Queued[]): Promise<unknown> {
    const error = await attempt(queue, group);
    if (error === undefined) {
      if (group.length > 1) internalErrors = 0;
      return undefined;
    }
    if (isInternalError(error)) {
      internalErrors += 1;
      if (internalErrors < maxInternalErrors) return error;
    } else if (isOutage(error)) return error;
    const { failed, outage } = await writeApart(group, error, (part) => attempt(queue, part));
    if (outage !== undefined) return outage;
    const hasWritten = failed.length < group.length;
    let last: unknown;
    // If PostgreSQL fails for all of them, keep all.
    for (const [one, failure] of failed)
      last = putBack(queue, one, failure, hasWritten || !isInternalError(failure)) ?? last;
    return last;
  }

  /** Writes the group or returns why not. */
  async function attempt(queue: Queue, group: readonly Queued[]): Promise<unknown> {
    const counts = group.map(([, count]) => count);
    try {
      const { losses } = await deps.store.settle({ records: [], counts });
      deps.metrics.lost(losses);
      // After posting: a count lost in between is released in a day, and none is stored that was never posted.
      await deps.counts.keepLost(counts);
    } catch (error) {
      return error;
    }
    for (const [key, count] of group) {
      tries.delete(key);
      if (queue.get(key) === count) queue.delete(key);
    }
    return undefined;
  }

  /** Queues it behind the others; gives up after `maxTries` counted attempts. */
  function putBack(queue: Queue, [key, count]: Queued, error: unknown, isCounted: boolean): unknown {
    const tried = (tries.get(key) ?? 0) + (isCounted ? 1 : 0);
    queue.delete(key);
    if (tried < maxTries) {
      tries.set(key, tried);
      queue.set(key, count);
      return error;
    }
    tries.delete(key);
    deps.log.error(
      { err: error, requestId: count.requestId },
      "could not write a delivered count; its record is billed without it",
    );
    return undefined;
  }

  function drop(count: DeliveredCount, reason: CountReason): void {
    const drops = dropped[reason];
    drops.count += 1;
    const nowMs = clock.monotonicMs();
    if (nowMs < drops.nextLogMs) return;
    deps.log.error(
      { reason, dropped: drops.count, requestId: count.requestId },
      "too many delivered counts wait for the database; dropped the newest",
    );
    drops.count = 0;
    drops.nextLogMs = nowMs + logEveryMs;
  }

  function wake(): void {
    running ??= drain().finally(() => {
      running = undefined;
      if (waiting() > 0 && !stopping.signal.aborted) wake();
    });
  }

  return {
    report(count, reason) {
      const queue = queues[reason];
      if (queue.size >= queueLimit) return drop(count, reason);
      queue.set(recordKey(count), count);
      wake();
    },
    /** Tries once more to write the waiting counts. */
    async stop() {
      stopping.abort();
      await running;
      if (waiting() > 0) await drain();
    },
  };
}
