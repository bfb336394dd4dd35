// Holds for requests, inside slices of budgets leased from PostgreSQL (promises 2.2). INVARIANTS: a slice admits only before
// its deadline on the monotonic clock; its free part never exceeds the database's `granted - settled` less what is held; an
// ended request stays reserved until its record is durable, unless the agent never started it.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { AccountId, LeaseId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { HeldMoney, HoldEnds } from "./held-money.ts";
import type { Budgets, Hold, HoldRequest } from "./hold.ts";
import type { BillingMetrics } from "./metrics.ts";
import { Purse } from "./purse.ts";
import { freeOf, type Slice, type SliceTiming, sliceTiming } from "./slice.ts";
import type { GiveBack, LeaseStore, Replica, ReturnReason } from "./store.ts";
import { sweepExpired } from "./sweep.ts";

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
  /** One round of renewals, look-ups and returns; `start` runs it every second. */
  tick(): Promise<void>;
  /**
   * The limit or standing of an account or a budget (its id) changed: what is free of its slices goes back at once, and the
   * next request asks the database.
   */
  recall(subject: string): void;
}

const lookUpAtOnce = 2_000;

export function createBudgets(deps: BudgetsDeps): RunningBudgets {
  const { store, replica, log, metrics } = deps;
  const clock = deps.clock ?? systemClock;
  const timing: SliceTiming = { ...sliceTiming, ...deps.timing };
  const slices = new Map<LeaseId, Slice>();
  const purses = new Map<AccountId, Purse>();
  /** Ended, their record not known to be durable. */
  /** A job that runs again holds a second time under its one request id while the first hold still waits. */
  const unrecorded = new Set<HeldMoney>();
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  let openHolds = 0;
  let openAmount = 0n;
  let sweptAtMs = clock.monotonicMs();
  let isAway = false;
  /** Returns run one after another. */
  let returning: Promise<unknown> = Promise.resolve();

  const closed = (held: HeldMoney) => {
    openHolds -= 1;
    openAmount -= held.amount;
  };
  const ends: HoldEnds = {
    nowMs: () => clock.monotonicMs(),
    freed: closed,
    unrecorded(held) {
      closed(held);
      unrecorded.add(held);
    },
  };
  const purseDeps = {
    store,
    replica,
    clock,
    timing,
    metrics,
    slices,
    ends,
    opened(held: HeldMoney) {
      openHolds += 1;
      openAmount += held.amount;
    },
    refillFailed: (error: unknown) => away(error),
    reclaim,
  };
  metrics.watchHolds(() => ({
    holds: openHolds + unrecorded.size,
    holdAmount: [...unrecorded].reduce((sum, held) => sum + held.reserved, openAmount),
    leases: slices.size,
    leased: [...slices.values()].reduce((sum, slice) => sum + slice.granted - slice.settled, 0n),
  }));

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
    const canReach = await attempt(() => sync(nowMs));
    forgetOld(nowMs);
    // A return whose outcome is unknown is lost to this replica until the next renewal: while PostgreSQL is away, keep it.
    if (canReach) await attempt(() => giveBack(idleParts(nowMs), "idle"));
    for (const [account, purse] of purses) if (purse.isEmpty) purses.delete(account);
    if (nowMs - sweptAtMs < timing.sweepEveryMs) return;
    sweptAtMs = nowMs;
    await attempt(() => store.touchReplica(replica));
    await attempt(() => sweepExpired(deps, timing.sweepGraceMs));
  }

  /** Renews what is due, and everything that has requests to look up: a record counts together with its lease's figure. */
  async function sync(sentAtMs: number): Promise<void> {
    const asked = [...unrecorded].slice(0, lookUpAtOnce);
    const due = [...slices.values()].filter(
      (slice) => slice.unrecorded > 0 || isIdle(slice, sentAtMs) || sentAtMs - slice.renewedAtMs >= timing.renewEveryMs,
    );
    if (due.length === 0) return;
    const before = new Map(due.map((slice) => [slice, slice.moves > 0 ? undefined : slice.moved]));
    const found = await store.sync(
      replica,
      due.map((slice) => slice.leaseId),
      asked.map((held) => held.requestId),
      timing.ttlMs,
    );
    const states = new Map(found.leases.map((state) => [state.leaseId, state]));
    for (const slice of due) {
      const state = states.get(slice.leaseId);
      if (!state) {
        // Closed by another replica's sweep while this one was away: it may hold nothing any more.
        purses.get(slice.account)?.retire(slice);
        slices.delete(slice.leaseId);
        continue;
      }
      slice.settled = state.settled;
      if (before.get(slice) === slice.moved && slice.moves === 0) slice.granted = state.granted;
      slice.deadlineMs = sentAtMs + timing.ttlMs;
      slice.renewedAtMs = sentAtMs;
    }
    for (const held of asked) {
      unrecorded.delete(held);
      if ((found.recorded.get(held.requestId) ?? 0) >= held.attempt) held.drop();
      // To the end of the line, so that one that never comes does not keep others from being asked about.
      else if (held.slices.some((slice) => slices.has(slice.leaseId))) unrecorded.add(held);
    }
    if (isAway) log.info("leases are renewed again");
    isAway = false;
  }

  /** Retires slices of great age, and lets go of those whose last records never came: they expire and the sweep decides. */
  function forgetOld(nowMs: number): void {
    for (const slice of slices.values()) {
      if (!slice.isRetired && nowMs - slice.bornAtMs >= timing.maxAgeMs) purses.get(slice.account)?.retire(slice);
      const isForgotten = slice.isRetired && slice.openHolds === 0 && nowMs - slice.usedAtMs >= timing.forgetMs;
      if (!isForgotten || slice.unrecorded === 0) continue;
      metrics.holdsExpired.inc(slice.unrecorded);
      log.warn(
        { lease: slice.leaseId, account: slice.account, requests: slice.unrecorded },
        "usage records never came",
      );
      slices.delete(slice.leaseId);
    }
  }

  const isIdle = (slice: Slice, nowMs: number) => slice.isRetired || nowMs - slice.usedAtMs >= timing.idleMs;

  function idleParts(nowMs: number): [Slice, bigint][] {
    return [...slices.values()].flatMap((slice): [Slice, bigint][] => {
      if (slice.moves > 0) return [];
      const idle = isIdle(slice, nowMs);
      const amount = idle ? freeOf(slice) : (purses.get(slice.account)?.excess(slice, nowMs) ?? 0n);
      const isDone = idle && slice.openHolds === 0 && slice.unrecorded === 0;
      return amount > 0n || isDone ? [[slice, amount > 0n ? amount : 0n]] : [];
    });
  }

  /** What retired slices of the account still have, before anybody is told that there is no money. */
  async function reclaim(account: AccountId): Promise<void> {
    await returning.catch(() => {});
    await giveBack(
      freeParts((slice) => slice.isRetired && slice.account === account),
      "idle",
    );
  }

  const freeParts = (isWanted: (slice: Slice) => boolean): [Slice, bigint][] =>
    [...slices.values()]
      .filter((slice) => slice.moves === 0 && isWanted(slice) && freeOf(slice) > 0n)
      .map((slice) => [slice, freeOf(slice)]);

  function giveBack(parts: readonly [Slice, bigint][], why: ReturnReason): Promise<void> {
    if (parts.length === 0) return Promise.resolve();
    const given = returnToStore(parts, why);
    returning = given.catch(() => {});
    return given;
  }

  async function returnToStore(parts: readonly [Slice, bigint][], why: ReturnReason): Promise<void> {
    const items = parts.map(([slice, amount]): GiveBack => {
      // Taken out of memory first: a request that comes meanwhile must not be promised it.
      slice.granted -= amount;
      slice.moves += 1;
      const mayClose = slice.openHolds === 0 && slice.unrecorded === 0;
      return { leaseId: slice.leaseId, budgetId: slice.budget.budgetId, amount, mayClose };
    });
    try {
      const given = new Map((await store.giveBack(replica, items, why)).map((back) => [back.leaseId, back]));
      for (const [slice, amount] of parts) {
        const back = given.get(slice.leaseId);
        if (back && !back.isClosed) slice.granted += amount - back.given;
        else {
          purses.get(slice.account)?.retire(slice);
          slices.delete(slice.leaseId);
        }
        if (back?.isClosed) metrics.leaseReturns.inc({ why });
      }
    } finally {
      for (const [slice] of parts) {
        slice.moves -= 1;
        slice.moved += 1;
      }
    }
  }

  async function attempt(step: () => Promise<unknown>): Promise<boolean> {
    try {
      await step();
      return true;
    } catch (error) {
      away(error);
      return false;
    }
  }

  function away(error: unknown): void {
    if (!isAway) log.warn({ err: error }, "budgets cannot reach the database; slices last until their deadline");
    isAway = true;
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
      await returning;
      await attempt(() => sync(clock.monotonicMs()));
      for (const slice of slices.values()) purses.get(slice.account)?.retire(slice);
      await attempt(() =>
        giveBack(
          [...slices.values()].map((slice) => [slice, atLeastZero(freeOf(slice))]),
          "shutdown",
        ),
      );
    },
    recall(subject) {
      const isMeant = (slice: Slice) => slice.account === subject || slice.budget.budgetId === subject;
      for (const slice of slices.values()) if (isMeant(slice)) purses.get(slice.account)?.retire(slice);
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
