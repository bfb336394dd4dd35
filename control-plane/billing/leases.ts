// Holds for requests, inside slices of budgets leased from PostgreSQL (promises 2.2): renewal, return and sweep of leases.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { Budgets, Hold, HoldRequest } from "./hold.ts";
import type { BillingMetrics } from "./metrics.ts";
import { Purse } from "./purse.ts";
import { type Part, type Slice, Slices, type SliceTiming, sliceTiming } from "./slices.ts";
import type { LeaseStore, Replica, ReturnReason } from "./store.ts";

export interface BudgetsDeps {
  readonly store: LeaseStore;
  readonly replica: Replica;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
  /** Lease ids that some agent still has a request or a record of; undefined while a known host has not been heard yet. */
  readonly openLeaseIds: () => Promise<ReadonlySet<string> | undefined>;
  /** Those of hosts that were silent for a day, each with its host: released all the same, with an audit row. */
  readonly voidedLeases?: () => Promise<ReadonlyMap<string, string>>;
  readonly clock?: Clock;
  readonly timing?: Partial<SliceTiming>;
}

export interface RunningBudgets extends Budgets {
  start(): void;
  /** Gives back what nobody uses; what is held or not yet in the ledger stays leased until it is. */
  stop(): Promise<void>;
  /** Runs one round of renewals, look-ups and returns; `start` repeats it every `tickMs`. */
  tick(): Promise<void>;
  /**
   * The limit or standing of an account or a budget (its id) changed: what is free of its slices goes back at once, and the
   * next request asks the database.
   */
  recall(subject: string): void;
}

export function createBudgets(deps: BudgetsDeps): RunningBudgets {
  const { store, replica, log, metrics } = deps;
  const clock = deps.clock ?? systemClock;
  const timing: SliceTiming = { ...sliceTiming, ...deps.timing };
  const slices = new Slices(clock, timing);
  const purses = new Map<AccountId, Purse>();
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  let sweptAtMs = clock.monotonicMs();
  let isUnavailable = false;
  /** Monotonic ms of the first tick in a row that reached the database; undefined after a failed one. */
  let reachableSinceMs: number | undefined = clock.monotonicMs();
  /** Returns run one after another. */
  let returning: Promise<unknown> = Promise.resolve();

  const purseDeps = { store, replica, clock, timing, metrics, slices, refillFailed: unavailable, reclaim };
  metrics.watchHolds(() => slices.figures);

  function hold(request: HoldRequest): Hold | Promise<Hold> {
    if (request.full === 0n) return freeHold(clock.unixMs() + timing.ttlMs);
    let purse = purses.get(request.account);
    if (!purse) {
      purse = new Purse(request.account, purseDeps);
      purses.set(request.account, purse);
    }
    return purse.hold(request);
  }

  async function tick(): Promise<void> {
    const nowMs = clock.monotonicMs();
    const canReach = await attempt(sync);
    reachableSinceMs = canReach ? (reachableSinceMs ?? nowMs) : undefined;
    // During an outage every record is late. After it the agents get the full time to send theirs again.
    if (reachableSinceMs !== undefined && nowMs - reachableSinceMs >= timing.overdueMs)
      slices.reportOverdue(nowMs - timing.overdueMs);
    forgetOld(nowMs);
    // The amount of a return whose outcome is unknown is lost until the next renewal: keep it while PostgreSQL has an outage.
    if (canReach) await attempt(() => giveBack(idleParts(nowMs), "idle"));
    for (const [account, purse] of purses) if (purse.isEmpty) purses.delete(account);
    if (nowMs - sweptAtMs < timing.sweepEveryMs) return;
    sweptAtMs = nowMs;
    await attempt(() => store.touchReplica(replica));
    await attempt(sweepExpired);
  }

  async function sync(): Promise<void> {
    const isRenewed = await slices.renew((leases, requests) => store.sync(replica, leases, requests, timing.ttlMs));
    if (!isRenewed) return;
    if (isUnavailable) log.info("leases are renewed again");
    isUnavailable = false;
  }

  function forgetOld(nowMs: number): void {
    for (const { slice, missing } of slices.forgetOld(nowMs)) {
      metrics.holdsExpired.inc(missing);
      log.warn({ lease: slice.leaseId, account: slice.account, requests: missing }, "usage records never came");
    }
  }

  function idleParts(nowMs: number): Part[] {
    return [...slices].flatMap((slice): Part[] => {
      if (slice.moves > 0) return [];
      const isIdle = slice.isIdle(nowMs);
      const amount = isIdle ? atLeastZero(slice.free) : (purses.get(slice.account)?.excess(slice, nowMs) ?? 0n);
      return amount > 0n || (isIdle && !slice.hasHolds) ? [[slice, amount]] : [];
    });
  }

  /** Returns the free part of the account's retired slices, so that a grant can use it before a request is refused. */
  async function reclaim(account: AccountId): Promise<void> {
    await returning.catch(() => {});
    await giveBack(
      freeParts((slice) => slice.isRetired && slice.account === account),
      "idle",
    );
  }

  const freeParts = (isMeant: (slice: Slice) => boolean): Part[] =>
    [...slices]
      .filter((slice) => slice.moves === 0 && isMeant(slice) && slice.free > 0n)
      .map((slice) => [slice, slice.free]);

  function giveBack(parts: readonly Part[], why: ReturnReason): Promise<void> {
    if (parts.length === 0) return Promise.resolve();
    const given = slices
      .giveBack(parts, (items) => store.giveBack(replica, items, why))
      .then((closedCount) => {
        if (closedCount > 0) metrics.leaseReturns.inc({ why }, closedCount);
      });
    returning = given.catch(() => {});
    return given;
  }

  /**
   * Returns the leases that no replica renews any more, once no agent reports a request in flight or an unacknowledged record
   * on them: their record, if it ever comes, would find the money sold.
   */
  async function sweepExpired(): Promise<void> {
    const expired = await store.expiredLeases(timing.sweepGraceMs);
    if (expired.length === 0) return;
    const open = await deps.openLeaseIds();
    if (!open) return;
    const unheld = expired.filter((leaseId) => !open.has(leaseId));
    if (unheld.length === 0) return;
    const voided = (await deps.voidedLeases?.()) ?? new Map<string, string>();
    const closed = await store.closeExpired(unheld, timing.sweepGraceMs, voided);
    metrics.released.inc({ what: "lease" }, closed.filter(({ leaseId }) => voided.has(leaseId)).length);
    for (const { leaseId, given } of closed)
      log.info({ lease: leaseId, given: String(given) }, "expired lease returned");
    metrics.leaseReturns.inc({ why: "dead" }, closed.length);
  }

  async function attempt(step: () => Promise<unknown>): Promise<boolean> {
    try {
      await step();
      return true;
    } catch (error) {
      unavailable(error);
      return false;
    }
  }

  function unavailable(error: unknown): void {
    if (!isUnavailable) log.warn({ err: error }, "budgets cannot reach the database; slices last until their deadline");
    isUnavailable = true;
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      await wait(timing.tickMs, undefined, { signal: stopping.signal }).catch(() => {});
      if (!stopping.signal.aborted) await tick();
    }
  }

  return {
    hold,
    tick,
    start() {
      loop ??= run();
    },
    async stop() {
      stopping.abort();
      await loop;
      // A grant that comes after the return would stay leased until its lease expires.
      await Promise.all([...purses.values()].map((purse) => purse.granted()));
      await returning;
      await attempt(sync);
      slices.reportOverdue(Number.POSITIVE_INFINITY);
      slices.retire(() => true);
      await attempt(() =>
        giveBack(
          [...slices].map((slice) => [slice, atLeastZero(slice.free)]),
          "shutdown",
        ),
      );
    },
    recall(subject) {
      const isMeant = (slice: Slice) => slice.account === subject || slice.budget.budgetId === subject;
      slices.retire(isMeant);
      for (const purse of purses.values()) purse.forgetRefusals();
      void attempt(() => giveBack(freeParts(isMeant), "idle"));
    },
  };
}

const atLeastZero = (amount: bigint): bigint => (amount > 0n ? amount : 0n);

/** Costs nothing, so it lies on no slice. */
function freeHold(expiresAtMs: number): Hold {
  return { amount: nano(0n), leaseIds: [], expiresAtMs, settle() {}, release() {}, awaitRecord() {} };
}
