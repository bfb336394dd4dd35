// Usage records that cannot be billed are kept for an operator and acknowledged: otherwise they stay in their host's spool. A
// host may send any number of them, so the rows per host, the bytes per row and the work per second are limited.
import type { Logger } from "pino";
import type { HostId } from "../../proto/ids.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { BillingMetrics } from "./metrics.ts";
import type { NewQuarantined, QuarantineStore } from "./quarantine-store.ts";

/** Maximum unresolved records of one host. */
export const maxOpenPerHost = 1_000;
/** An honest record has less than 4 KiB. */
const maxRecordBytes = 32 * 1024;
/** Maximum records of one host that wait to be written; the host sends others again. */
const maxWaitingPerHost = 1_000;
/** A host whose quarantine is full writes at most this often. */
const fullPauseMs = 10_000;
/** Minimum time between two log lines about one host. */
const logEveryMs = 10_000;

export interface Quarantine {
  /**
   * Returns true for each record that the host need not send again: it is stored, or dropped and counted because `host` has too
   * many. Never throws.
   */
  put(host: HostId, nodeEpoch: string, records: readonly NewQuarantined[]): Promise<readonly boolean[]>;
}

interface HostQueue {
  waiting: number;
  last: Promise<unknown>;
  fullUntilMs: number;
  /** Records dropped since the last write. */
  uncounted: number;
  nextLogMs: number;
}

export function createQuarantine(deps: {
  readonly store: Pick<QuarantineStore, "quarantine">;
  readonly metrics: BillingMetrics;
  readonly log: Logger;
  readonly clock?: Clock;
}): Quarantine {
  const clock = deps.clock ?? systemClock;
  const hosts = new Map<HostId, HostQueue>();

  function queueOf(host: HostId): HostQueue {
    let queue = hosts.get(host);
    if (!queue) {
      const never = Number.NEGATIVE_INFINITY;
      queue = { waiting: 0, last: Promise.resolve(), fullUntilMs: never, uncounted: 0, nextLogMs: never };
      hosts.set(host, queue);
    }
    return queue;
  }

  function drop(queue: HostQueue, count: number): void {
    queue.uncounted += count;
    deps.metrics.usageEvents.inc({ result: "quarantine_dropped" }, count);
  }

  async function write(queue: HostQueue, host: HostId, nodeEpoch: string, records: readonly NewQuarantined[]) {
    const small = records.filter(({ record }) => Buffer.byteLength(record) <= maxRecordBytes);
    drop(queue, records.length - small.length);
    if (clock.monotonicMs() < queue.fullUntilMs) {
      drop(queue, small.length);
      return true;
    }
    const { uncounted } = queue;
    try {
      const dropped = await deps.store.quarantine(host, nodeEpoch, small, maxOpenPerHost, uncounted);
      queue.uncounted -= uncounted;
      if (dropped > 0) queue.fullUntilMs = clock.monotonicMs() + fullPauseMs;
      deps.metrics.usageEvents.inc({ result: "quarantined" }, small.length - dropped);
      deps.metrics.usageEvents.inc({ result: "quarantine_dropped" }, dropped);
      if (clock.monotonicMs() >= queue.nextLogMs) {
        queue.nextLogMs = clock.monotonicMs() + logEveryMs;
        const problems = [...new Set(records.map(({ problem }) => problem))];
        const [{ requestId, why } = { requestId: "", why: "" }] = records;
        deps.log.error(
          { alert: "usage_quarantined", host, nodeEpoch, records: records.length, dropped, problems, requestId, why },
          "usage records that cannot be billed are in quarantine",
        );
      }
      return true;
    } catch (error) {
      deps.log.error(
        { err: error, host, records: records.length },
        "could not quarantine usage records; agents will send them again",
      );
      return false;
    }
  }

  return {
    async put(host, nodeEpoch, records) {
      const queue = queueOf(host);
      const taken = records.slice(0, Math.max(0, maxWaitingPerHost - queue.waiting));
      queue.waiting += taken.length;
      // One transaction per host at a time, so that a host uses only one database connection.
      const turn = queue.last.then(() => (taken.length === 0 ? true : write(queue, host, nodeEpoch, taken)));
      queue.last = turn;
      const isKept = await turn;
      queue.waiting -= taken.length;
      return records.map((_, i) => isKept && i < taken.length);
    },
  };
}
