// Writes usage records in groups: all that arrive during one transaction are in the next. A failed group is repeated, and split
// when one of its records may be the cause.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { TraceContext } from "../../proto/trace-context.ts";
import type { Tracing } from "../../proto/tracing.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import type { Clock } from "./clock.ts";
import { isInternalError, isOutage, isRefusedValue, maxInternalErrors } from "./database-failure.ts";
import { LostRecords } from "./lost-records.ts";
import type { BillingMetrics } from "./metrics.ts";
import { recordKey, type SettledRecord } from "./record.ts";
import type { Settled, SettlementStore } from "./store.ts";
import { writeApart } from "./write-apart.ts";

const groupSize = 500;
/** A transaction costs nearly the same for one record as for a hundred: after each one, wait this long for more records. */
const usualGatherMs = 250;
/** Maximum records in memory; agents send the others again. */
const maxQueued = 20_000;
/** Pause between attempts during an outage of PostgreSQL: it doubles with each, less up to half at random. */
const retryMs = { first: 500, max: 4_000 };
/** As maxInternalErrors, when no record of the group could be settled but others were since the record's first error. */
const maxErrorsAlone = 20;

/** `durable`: settled now or before; `again`: to be sent again; `refused`: PostgreSQL will never accept it. */
export type SettleOutcome = "durable" | "again" | { readonly refused: unknown };

interface Queued {
  readonly record: SettledRecord;
  readonly trace: TraceContext | undefined;
  readonly done: (outcome: SettleOutcome) => void;
}

/** A record of a group that failed with an internal error. */
interface Suspect {
  errorCount: number;
  /** Number of groups that were settled before its first error. */
  readonly settledBefore: number;
}

export interface QueueDeps {
  readonly store: SettlementStore;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
  readonly clock: Clock;
  /** Undefined: traces are off. */
  readonly tracing?: Tracing | undefined;
  /** How long a lost attempt waits for the delivered count of a live replica; 60 s when left out. */
  readonly lostWaitMs?: number | undefined;
  /** How long records gather after each transaction; 250 ms when left out. */
  readonly gatherMs?: number | undefined;
}

export class SettlementQueue {
  readonly #deps: QueueDeps;
  readonly #gatherMs: number;
  readonly #lost: LostRecords;
  readonly #queue: Queued[] = [];
  readonly #suspects = new Map<string, Suspect>();
  #isRunning = false;
  #isUnavailable = false;
  /** Failures in a row. */
  #failureCount = 0;
  #retryAtMs = 0;
  #settledGroupCount = 0;

  constructor(deps: QueueDeps) {
    this.#deps = deps;
    this.#gatherMs = deps.gatherMs ?? usualGatherMs;
    this.#lost = new LostRecords(deps.store, deps.clock, deps.lostWaitMs ?? 60_000);
  }

  /** Records that arrive before the next attempt stay with their agents. */
  get isPausing(): boolean {
    return this.#failureCount > 0 && this.#deps.clock.monotonicMs() < this.#retryAtMs;
  }

  get isFull(): boolean {
    return this.#queue.length >= maxQueued;
  }

  /** Never rejects. Call `drain` after the last record of a message: the first would be a transaction of its own. */
  add(record: SettledRecord, trace?: TraceContext): Promise<SettleOutcome> {
    return new Promise((done) => {
      this.#queue.push({ record, trace, done });
    });
  }

  async drain(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      while (this.#queue.length > 0) {
        await this.#settleGroup(this.#queue.splice(0, groupSize));
        if (this.#queue.length < groupSize && this.#gatherMs > 0) await wait(this.#gatherMs);
      }
    } finally {
      this.#isRunning = false;
    }
  }

  async #settleGroup(group: readonly Queued[]): Promise<void> {
    if (this.isPausing) {
      for (const { done } of group) done("again");
      return;
    }
    const failure = await this.#attempt(group);
    if (failure === undefined) return;
    if (isOutage(failure) || (isInternalError(failure) && !this.#mayBeOfOneRecord(group))) {
      this.#pauseAfterOutage();
      return this.#sendAgain(group, failure);
    }
    const settledBefore = this.#settledGroupCount;
    const { failed, untried, outage } = await writeApart(group, failure, (part) => this.#attempt(part));
    const again = [...untried];
    let cause = outage;
    let isFailing = outage !== undefined;
    for (const [queued, error] of failed) {
      const key = recordKey(queued.record);
      if (isInternalError(error) && !isInternalError(failure)) this.#suspect(key);
      if (isRefusedValue(error) || this.#isCause(key, error, settledBefore)) {
        this.#suspects.delete(key);
        queued.done({ refused: error });
      } else {
        again.push(queued);
        cause ??= error;
        isFailing ||= isInternalError(error);
      }
    }
    if (isFailing) this.#pauseAfterOutage();
    this.#sendAgain(again, cause);
  }

  /** Settles the group or returns why not. */
  async #attempt(group: readonly Queued[]): Promise<unknown> {
    const beganMs = performance.now();
    try {
      const waiting = await this.#write(group.map(({ record }) => record));
      for (const queued of group) {
        const { record, done } = queued;
        const key = recordKey(record);
        this.#suspects.delete(key);
        if (queued.trace?.isSampled && !waiting.has(key)) this.#traceSettled(queued, beganMs);
        done(waiting.has(key) ? "again" : "durable");
      }
      if (this.#isUnavailable) this.#deps.log.info("usage is settled again");
      this.#isUnavailable = false;
      this.#failureCount = 0;
      this.#settledGroupCount += 1;
      return undefined;
    } catch (error) {
      return error ?? new Error("unknown");
    }
  }

  /** The transaction, as a part of the request's trace. */
  #traceSettled({ record, trace }: Queued, startMs: number): void {
    this.#deps.tracing
      ?.start("settle", trace, {
        startMs,
        attributes: {
          "stoker.request_id": record.requestId,
          "stoker.attempt": record.attempt,
          "stoker.account": record.account,
          "stoker.cost_nano_usd": String(record.cost),
        },
      })
      ?.end();
  }

  #pauseAfterOutage(): void {
    const ms = Math.min(retryMs.max, retryMs.first * 2 ** this.#failureCount) * (1 - Math.random() / 2);
    this.#failureCount += 1;
    this.#retryAtMs = this.#deps.clock.monotonicMs() + ms;
  }

  #sendAgain(group: readonly Queued[], error: unknown): void {
    if (group.length === 0) return;
    if (!this.#isUnavailable || !(error instanceof DatabaseUnavailable))
      this.#deps.log.error({ err: error, records: group.length }, "could not settle usage; agents will send it again");
    this.#isUnavailable = error instanceof DatabaseUnavailable;
    for (const { done } of group) done("again");
  }

  /**
   * Counts an internal error of PostgreSQL, which a failing server or a single row may cause, against each record. The group is
   * first sent again as a whole. A record is refused only if it fails alone while others are settled.
   */
  #mayBeOfOneRecord(group: readonly Queued[]): boolean {
    const errorCounts = group.map(({ record }) => this.#suspect(recordKey(record)));
    return errorCounts.some((count) => count >= maxInternalErrors);
  }

  #isCause(key: string, failure: unknown, settledBefore: number): boolean {
    const suspect = this.#suspects.get(key);
    if (!isInternalError(failure) || !suspect || suspect.errorCount < maxInternalErrors) return false;
    if (this.#settledGroupCount > settledBefore) return true;
    return suspect.errorCount >= maxErrorsAlone && this.#settledGroupCount > suspect.settledBefore;
  }

  /** Counts an internal error against a record; returns how many there were. */
  #suspect(key: string): number {
    const suspect = this.#suspects.get(key) ?? { errorCount: 0, settledBefore: this.#settledGroupCount };
    suspect.errorCount += 1;
    if (!this.#suspects.has(key) && this.#suspects.size >= maxQueued)
      this.#suspects.delete(this.#suspects.keys().next().value as string);
    this.#suspects.set(key, suspect);
    return suspect.errorCount;
  }

  /** Returns the keys of the records that must be sent again. */
  async #write(records: readonly SettledRecord[]): Promise<ReadonlySet<string>> {
    const { records: resolved, waiting } = await this.#lost.resolve(records);
    // The same record twice in one group is one row.
    const unique = [...new Map(resolved.map((record) => [recordKey(record), record])).values()];
    if (unique.length === 0) return waiting;
    const settled = await this.#deps.store.settle({ records: unique, counts: [] });
    this.#lost.settled(settled.fresh);
    const rejected = unique.filter(
      (one) => one.source === "engine_usage_rejected" && settled.fresh.has(recordKey(one)),
    );
    this.#count(settled, resolved.length - settled.fresh.size, rejected.length);
    return waiting;
  }

  #count({ fresh, late, losses }: Settled, duplicates: number, rejected: number): void {
    const { usageEvents } = this.#deps.metrics;
    const orphans = losses.filter(({ reason }) => reason === "orphan").length;
    usageEvents.inc({ result: "captured" }, Math.max(0, fresh.size - orphans - late));
    usageEvents.inc({ result: "late" }, late);
    usageEvents.inc({ result: "orphan" }, orphans);
    usageEvents.inc({ result: "duplicate" }, duplicates);
    usageEvents.inc({ result: "usage_rejected" }, rejected);
    this.#deps.metrics.lost(losses);
  }
}
