// Makes usage records durable money, in groups: whatever came since the last transaction began goes into the next one.
// Safe to repeat: a record that is already there changes nothing and is acknowledged again.

import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { HostId, ReplicaId, RequestId } from "../../proto/ids.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import { claimedTicket } from "./claimed-ticket.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { BillingMetrics } from "./metrics.ts";
import type { Quarantine } from "./quarantine.ts";
import {
  asDelivered,
  provenTicket,
  type QuarantineProblem,
  RefusedRecord,
  readRecord,
  recordKey,
  type SettledRecord,
  type TicketSeals,
} from "./record.ts";
import type { Settled, SettlementStore } from "./store.ts";

export interface Settlement {
  /**
   * Bills records of requests that this installation sent to `host`, and quarantines the others. Returns the spool ids that need
   * not come again: settled or quarantined, now or before. Never throws; what is missing from the reply (database unavailable, a
   * lost attempt whose delivered count may still come, a seal whose key has not arrived here) is to be sent again.
   */
  settle(records: readonly SpooledRecord[], nodeEpoch: string, host: HostId): Promise<string[]>;
  /**
   * Bills a quarantined record as its ticket says, although nothing proves the ticket: an operator vouches for it. Throws
   * RefusedRecord or RangeError when it cannot be billed. False when the database is unavailable or the record has to wait.
   */
  release(record: SpooledRecord): Promise<boolean>;
}

export interface SettlementDeps {
  readonly store: SettlementStore;
  readonly seals: TicketSeals;
  readonly quarantine: Quarantine;
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
/** Pause between attempts while PostgreSQL has an outage: doubled from the first to the second, less up to half at random. */
const retryMs = { first: 500, max: 4_000 };
/** Internal errors of groups that a record was in, after which the group is split: one row may be their cause. */
export const maxInternalErrors = 5;
/** The same where none of its group could be settled, but others were since its first error. */
const maxErrorsAlone = 20;
/** A replica seen within this time may still write its delivered counts. */
const replicaLiveMs = 30_000;

interface Waiting {
  readonly record: SettledRecord;
  /** `refused`: PostgreSQL will never take it. */
  readonly done: (outcome: "durable" | "again" | { readonly refused: unknown }) => void;
}

/** A record of a group that failed with an internal error. */
interface Suspect {
  errors: number;
  /** Groups settled before its first error. */
  readonly settledGroups: number;
}

export function createSettlement(deps: SettlementDeps): Settlement {
  const clock = deps.clock ?? systemClock;
  const lostWaitMs = deps.lostWaitMs ?? 60_000;
  const gatherMs = deps.gatherMs ?? usualGatherMs;
  const queue: Waiting[] = [];
  /** When a lost attempt without a count was first seen. */
  const parkedSince = new Map<string, number>();
  let isRunning = false;
  let isUnavailable = false;
  let failureCount = 0;
  /** Groups settled so far. */
  let settledGroups = 0;
  const suspects = new Map<string, Suspect>();
  let retryAtMs = 0;

  /** Records that arrive before the next attempt stay with their agents. */
  const isPausing = () => failureCount > 0 && clock.monotonicMs() < retryAtMs;

  function pauseAfterOutage(): void {
    const ms = Math.min(retryMs.max, retryMs.first * 2 ** failureCount) * (1 - Math.random() / 2);
    failureCount += 1;
    retryAtMs = clock.monotonicMs() + ms;
  }

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
    if (isPausing()) {
      for (const { done } of group) done("again");
      return;
    }
    const failure = await attempt(group);
    if (failure === undefined) return;
    if (isInternalError(failure)) return settleSuspects(group, failure);
    if (isOutage(failure)) pauseAfterOutage();
    if (group.length > 1 && !isOutage(failure)) {
      // One poisoned record must not hold up the others of its group.
      for (const waiting of group) await settleGroup([waiting]);
      return;
    }
    const [only] = group;
    if (only && isRefusedValue(failure)) return only.done({ refused: failure });
    sendAgain(group, failure);
  }

  /** Settles the group or returns why not. */
  async function attempt(group: readonly Waiting[]): Promise<unknown> {
    try {
      const parked = await write(group.map((waiting) => waiting.record));
      for (const { record, done } of group) {
        const key = keyOf(record);
        suspects.delete(key);
        done(parked.has(key) ? "again" : "durable");
      }
      if (isUnavailable) deps.log.info("usage is settled again");
      isUnavailable = false;
      failureCount = 0;
      settledGroups += 1;
      return undefined;
    } catch (error) {
      return error ?? new Error("unknown");
    }
  }

  function sendAgain(group: readonly Waiting[], error: unknown): void {
    if (group.length === 0) return;
    if (!isUnavailable || !(error instanceof DatabaseUnavailable))
      deps.log.error({ err: error, records: group.length }, "usage was not settled; it comes again");
    isUnavailable = error instanceof DatabaseUnavailable;
    for (const { done } of group) done("again");
  }

  /**
   * After an internal error of PostgreSQL, which a failing server or a single row may cause. The group is sent again as a whole
   * at first, then settled record by record. A record is refused only if it fails alone while others are settled.
   */
  async function settleSuspects(group: readonly Waiting[], error: unknown): Promise<void> {
    const isSuspect = group.map(({ record }) => suspect(keyOf(record))).some((errors) => errors >= maxInternalErrors);
    if (!isSuspect) {
      pauseAfterOutage();
      return sendAgain(group, error);
    }
    const before = settledGroups;
    const failed: (readonly [Waiting, error: unknown])[] = [];
    const rest = [...group];
    for (let next = rest.shift(); next; next = rest.shift()) {
      const failure = group.length === 1 ? error : await attempt([next]);
      if (isRefusedValue(failure)) next.done({ refused: failure });
      else if (failure !== undefined) failed.push([next, failure]);
      if (isOutage(failure)) break;
    }
    const isPoison = ({ record }: Waiting, failure: unknown): boolean => {
      const { errors, settledGroups: first } = suspects.get(keyOf(record)) ?? { errors: 0, settledGroups };
      if (!isInternalError(failure) || errors < maxInternalErrors) return false;
      return settledGroups > before || (errors >= maxErrorsAlone && settledGroups > first);
    };
    const again = [...rest];
    for (const [waiting, failure] of failed) {
      if (!isPoison(waiting, failure)) {
        again.push(waiting);
        continue;
      }
      suspects.delete(keyOf(waiting.record));
      waiting.done({ refused: failure });
    }
    if (again.length > 0) pauseAfterOutage();
    sendAgain(again, failed.at(-1)?.[1]);
  }

  /** Counts an internal error against a record; returns how many there were. */
  function suspect(key: string): number {
    const found = suspects.get(key) ?? { errors: 0, settledGroups };
    found.errors += 1;
    if (!suspects.has(key) && suspects.size >= queueLimit) suspects.delete(suspects.keys().next().value as string);
    suspects.set(key, found);
    return found.errors;
  }

  /** Returns the keys of the records that must come again. */
  async function write(records: readonly SettledRecord[]): Promise<ReadonlySet<string>> {
    const parked = new Set<string>();
    const resolved = await resolveLost(records, parked);
    // The same record twice in one group is one row.
    const unique = [...new Map(resolved.map((record) => [keyOf(record), record])).values()];
    if (unique.length === 0) return parked;
    const settled = await deps.store.settle({ records: unique, counts: [] });
    const { fresh } = settled;
    count(settled, resolved.length - fresh.size);
    for (const key of fresh) parkedSince.delete(key);
    const rejected = unique.filter((one) => one.source === "engine_usage_rejected" && fresh.has(keyOf(one)));
    deps.metrics.usageEvents.inc({ result: "usage_rejected" }, rejected.length);
    return parked;
  }

  function count({ fresh, late, losses }: Settled, duplicates: number): void {
    const orphans = losses.filter(({ reason }) => reason === "orphan").length;
    deps.metrics.usageEvents.inc({ result: "captured" }, Math.max(0, fresh.size - orphans - late));
    deps.metrics.usageEvents.inc({ result: "late" }, late);
    deps.metrics.usageEvents.inc({ result: "orphan" }, orphans);
    deps.metrics.usageEvents.inc({ result: "duplicate" }, duplicates);
    deps.metrics.lost(losses);
  }

  /**
   * An attempt without figures of its own is billed as the gateway's count says. Without a count a lost one waits for it, then
   * costs nothing; one whose figures were rejected costs nothing at once.
   */
  async function resolveLost(records: readonly SettledRecord[], parked: Set<string>): Promise<SettledRecord[]> {
    const lost = records.filter((record) => record.isUnmeasured);
    if (lost.length === 0) return [...records];
    const counts = await deps.store.deliveredOf(lost.map((record): RequestId => record.requestId));
    const missing = lost.filter((record) => !counts.has(keyOf(record)));
    const live = await deps.store.liveReplicas([...new Set(missing.map((r): ReplicaId => r.replica))], replicaLiveMs);
    return records.flatMap((record) => {
      if (!record.isUnmeasured) return [record];
      const key = keyOf(record);
      const delivered = counts.get(key);
      if (delivered) return [asDelivered(record, delivered.outputTokens)];
      if (record.endReason === "lost" && live.has(record.replica) && !hasWaited(key)) {
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

  /** Drain afterwards. */
  const enqueue = (record: SettledRecord): Promise<Parameters<Waiting["done"]>[0]> =>
    new Promise((done) => {
      queue.push({ record, done });
    });

  return {
    async settle(records, nodeEpoch, host) {
      const durable: string[] = [];
      if (isPausing()) return durable;
      const refused: { readonly wire: SpooledRecord; readonly problem: QuarantineProblem; readonly why: string }[] = [];
      const settled = records.map(async (wire) => {
        if (queue.length >= queueLimit) return;
        try {
          const ticket = provenTicket(wire, host, deps.seals);
          // Undefined: the key that sealed it is on its way here.
          const outcome = ticket ? await enqueue(readRecord(wire, ticket)) : "again";
          if (outcome === "durable") durable.push(String(wire.spoolId));
          else if (outcome !== "again")
            refused.push({ wire, problem: "refused_value", why: reasonOf(outcome.refused) });
        } catch (error) {
          const problem = error instanceof RefusedRecord ? error.problem : "malformed";
          refused.push({ wire, problem, why: reasonOf(error) });
        }
      });
      // After all of them: the first alone would be a transaction of its own.
      void drain();
      await Promise.all(settled);
      if (refused.length === 0) return durable;
      const items = refused.map(({ wire, ...known }) => ({ ...known, ...namesOf(wire), record: JSON.stringify(wire) }));
      const kept = await deps.quarantine.put(host, nodeEpoch, items);
      return [...durable, ...refused.filter((_, i) => kept[i]).map(({ wire }) => String(wire.spoolId))];
    },

    async release(record) {
      const settled = enqueue(readRecord(record, claimedTicket(record)));
      void drain();
      const outcome = await settled;
      if (typeof outcome === "object") throw new RefusedRecord("refused_value", reasonOf(outcome.refused));
      return outcome === "durable";
    },
  };
}

const keyOf = ({ requestId, attempt }: SettledRecord): string => recordKey(requestId, attempt);

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** As the host names it: the ticket may be unreadable. */
function namesOf(wire: SpooledRecord): { readonly requestId: string; readonly attempt: number } {
  const { requestId, attempt } = wire;
  return {
    requestId: typeof requestId === "string" ? requestId.slice(0, 200) : "",
    attempt: Number.isSafeInteger(attempt) ? attempt : 0,
  };
}

/** A value that PostgreSQL will never take: SQLSTATE class 22, data exceptions. */
function isRefusedValue(error: unknown): boolean {
  return error instanceof Error && "code" in error && /^22...$/.test(String(error.code));
}

/** PostgreSQL ran the statement and reports an internal failure, which a single row may cause. */
export const isInternalError = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable && error.params.reason === "failing";

/** PostgreSQL is unavailable: no row is the cause. */
export const isOutage = (error: unknown): boolean => error instanceof DatabaseUnavailable && !isInternalError(error);
