// Makes usage records durable money, in groups: whatever came since the last transaction began goes into the next one.
// Safe to repeat: a record that is already there changes nothing and is acknowledged again.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { ReplicaId, RequestId } from "../../proto/ids.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { BillingMetrics } from "./metrics.ts";
import { moneyRules, type Postings } from "./post.ts";
import { asDelivered, readRecord, recordKey, type SettledRecord } from "./record.ts";
import type { QuarantineStore, SettlementStore } from "./store.ts";

export interface Settlement {
  /**
   * Returns the spool ids that need not come again: settled now or before. Never throws; what is missing from the answer
   * (database away, a lost attempt whose delivered count may still come) is to be sent again.
   */
  settle(records: readonly SpooledRecord[], nodeEpoch: string): Promise<string[]>;
}

export interface SettlementDeps {
  readonly store: SettlementStore;
  readonly quarantine: QuarantineStore;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
  readonly clock?: Clock;
  /** How long a lost attempt waits for the delivered count of a replica that lives. */
  readonly lostWaitMs?: number;
  /** How long records gather after each transaction; 100 when left out. */
  readonly gatherMs?: number;
}

const groupSize = 500;
/** A transaction costs nearly the same for one record as for a hundred: after each one records gather for this long. */
const usualGatherMs = 250;
/** Records in memory; agents send again what is not taken. */
const queueLimit = 20_000;
/** A replica seen within this time may still write its delivered counts. */
const replicaLiveMs = 30_000;

interface Waiting {
  readonly record: SettledRecord;
  readonly wire: SpooledRecord;
  readonly done: (isDurable: boolean) => void;
}

export function createSettlement(deps: SettlementDeps): Settlement {
  const clock = deps.clock ?? systemClock;
  const lostWaitMs = deps.lostWaitMs ?? 60_000;
  const gatherMs = deps.gatherMs ?? usualGatherMs;
  const queue: Waiting[] = [];
  /** When a lost attempt without a count was first seen. */
  const parkedSince = new Map<string, number>();
  let isRunning = false;
  let isAway = false;

  async function drain(): Promise<void> {
    if (isRunning) return;
    isRunning = true;
    try {
      while (queue.length > 0) {
        await settleGroup(queue.splice(0, groupSize));
        if (queue.length < groupSize && gatherMs > 0) await wait(gatherMs);
      }
    } finally {
      isRunning = false;
    }
  }

  async function settleGroup(group: readonly Waiting[]): Promise<void> {
    try {
      const parked = await write(group.map((waiting) => waiting.record));
      for (const { record, done } of group) done(!parked.has(recordKey(record.requestId, record.attempt)));
      if (isAway) deps.log.info("usage is settled again");
      isAway = false;
    } catch (error) {
      if (group.length > 1 && !isAwayError(error)) {
        // One poisoned record must not hold up the others of its group.
        for (const waiting of group) await settleGroup([waiting]);
        return;
      }
      const [only] = group;
      if (only && isRefusedValue(error)) return only.done(await setAside(only.wire, only.wire.nodeEpoch, error));
      if (!isAway || !isAwayError(error))
        deps.log.error({ err: error, records: group.length }, "usage was not settled; it comes again");
      isAway = isAwayError(error);
      for (const { done } of group) done(false);
    }
  }

  /** A record that can never become money is kept for people and acknowledged: in a spool it would stand for ever. */
  async function setAside(wire: SpooledRecord, nodeEpoch: string, cause: unknown): Promise<boolean> {
    const why = cause instanceof Error ? cause.message : String(cause);
    const { requestId, attempt } = wire;
    try {
      await deps.quarantine.quarantine({ requestId, attempt, nodeEpoch, why, record: JSON.stringify(wire) });
    } catch (error) {
      deps.log.error(
        { err: error, requestId, nodeEpoch },
        "a usage record was not put into quarantine; it comes again",
      );
      return false;
    }
    deps.metrics.usageEvents.inc({ result: "quarantined" });
    deps.log.error(
      { err: cause, requestId, attempt, nodeEpoch },
      "a usage record cannot be billed: it is in quarantine",
    );
    return true;
  }

  /** Returns the keys of the records that must come again. */
  async function write(records: readonly SettledRecord[]): Promise<ReadonlySet<string>> {
    const parked = new Set<string>();
    const resolved = await resolveLost(records, parked);
    // The same record twice in one group is one row.
    const unique = [
      ...new Map(resolved.map((record) => [recordKey(record.requestId, record.attempt), record])).values(),
    ];
    if (unique.length === 0) return parked;
    const { fresh, postings } = await deps.store.settle({ records: unique, counts: [] }, moneyRules);
    count(postings, fresh.size, resolved.length - fresh.size);
    for (const key of fresh) parkedSince.delete(key);
    return parked;
  }

  function count(posted: Postings | undefined, fresh: number, duplicates: number): void {
    const orphans = posted?.entries.filter((entry) => entry.lossReason === "orphan").length ?? 0;
    const late = posted?.late ?? 0;
    deps.metrics.usageEvents.inc({ result: "captured" }, Math.max(0, fresh - orphans - late));
    deps.metrics.usageEvents.inc({ result: "late" }, late);
    deps.metrics.usageEvents.inc({ result: "orphan" }, orphans);
    deps.metrics.usageEvents.inc({ result: "duplicate" }, duplicates);
    for (const { loss, lossReason } of posted?.entries ?? []) if (lossReason) deps.metrics.lost(loss, lossReason);
  }

  /** An attempt without an end record is billed as the gateway's count says; without a count it waits, then costs nothing. */
  async function resolveLost(records: readonly SettledRecord[], parked: Set<string>): Promise<SettledRecord[]> {
    const lost = records.filter((record) => record.endReason === "lost");
    if (lost.length === 0) return [...records];
    const counts = await deps.store.deliveredOf(lost.map((record): RequestId => record.requestId));
    const missing = lost.filter((record) => !counts.has(recordKey(record.requestId, record.attempt)));
    const live = await deps.store.liveReplicas([...new Set(missing.map((r): ReplicaId => r.replica))], replicaLiveMs);
    return records.flatMap((record) => {
      if (record.endReason !== "lost") return [record];
      const key = recordKey(record.requestId, record.attempt);
      const delivered = counts.get(key);
      if (delivered) return [asDelivered(record, delivered.outputTokens)];
      if (live.has(record.replica) && !hasWaited(key)) {
        parked.add(key);
        return [];
      }
      return [asDelivered(record, 0)];
    });
  }

  function hasWaited(key: string): boolean {
    const nowMs = clock.monotonicMs();
    const since = parkedSince.get(key);
    if (since !== undefined) return nowMs - since >= lostWaitMs;
    if (parkedSince.size >= queueLimit) parkedSince.delete(parkedSince.keys().next().value as string);
    parkedSince.set(key, nowMs);
    return false;
  }

  return {
    async settle(records, nodeEpoch) {
      const durable: string[] = [];
      const settled = records.map(async (wire) => {
        if (queue.length >= queueLimit) return;
        let record: SettledRecord;
        try {
          record = readRecord(wire);
        } catch (error) {
          if (await setAside(wire, nodeEpoch, error)) durable.push(String(wire.spoolId));
          return;
        }
        await new Promise<void>((resolve) => {
          queue.push({
            record,
            wire,
            done(isDurable) {
              if (isDurable) durable.push(String(wire.spoolId));
              resolve();
            },
          });
        });
      });
      void drain();
      await Promise.all(settled);
      return durable;
    },
  };
}

/** A value that PostgreSQL will never take: SQLSTATE class 22, data exceptions. */
function isRefusedValue(error: unknown): boolean {
  return error instanceof Error && "code" in error && /^22...$/.test(String(error.code));
}

export function isAwayError(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "store_away";
}
