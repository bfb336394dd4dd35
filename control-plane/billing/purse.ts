// The money of one account at this replica: its slices by budget, and the requests that wait for a grant. One grant runs
// at a time and serves everybody who waits; nobody overtakes them.
import { type AccountId, type BudgetId, type LeaseId, randomId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import type { Clock } from "./clock.ts";
import { grantSizes, isFarFromLimit, RecentUse, scarcest } from "./grant-size.ts";
import { HeldMoney, type HoldEnds } from "./held-money.ts";
import {
  BudgetStoreAway,
  type Hold,
  type HoldRequest,
  InsufficientFunds,
  SpendingSuspended,
  type UsedUp,
} from "./hold.ts";
import type { BillingMetrics } from "./metrics.ts";
import { type BudgetScope, type ScopeSet, scopesOf } from "./scopes.ts";
import { freeOf, type Slice, type SliceTiming } from "./slice.ts";
import type { LeaseStore, Replica } from "./store.ts";

export interface PurseDeps {
  readonly store: LeaseStore;
  readonly replica: Replica;
  readonly clock: Clock;
  readonly timing: SliceTiming;
  readonly metrics: BillingMetrics;
  /** Every slice of this replica, current or retired. */
  readonly slices: Map<LeaseId, Slice>;
  readonly ends: HoldEnds;
  readonly opened: (held: HeldMoney) => void;
  /** A refill nobody waits for failed. */
  readonly refillFailed: (error: unknown) => void;
  /** Returns what retired slices of the account still have. */
  readonly reclaim: (account: AccountId) => Promise<void>;
}

interface Waiter {
  readonly request: HoldRequest;
  readonly scopes: ScopeSet;
  readonly resolve: (hold: Hold) => void;
  readonly reject: (error: unknown) => void;
  /** A grant was sized with this request in mind. */
  wasCounted: boolean;
}

/** What the next seconds will hold is leased ahead; where the limit is far, what a whole lease's time will. */
const aheadSeconds = 3;
/** And at least this many requests like the last one. */
const aheadRequests = 4n;
/** USD 10: the most one slice grows by at once. */
const mostAhead = 10_000_000_000n;
/** A refused amount is refused at once for this long: clients that retry must cost no transaction each. */
const refusalMs = 250;

export class Purse {
  readonly account: AccountId;
  readonly #deps: PurseDeps;
  readonly #current = new Map<BudgetId, Slice>();
  readonly #use: RecentUse;
  #waiters: Waiter[] = [];
  #isGranting = false;
  #lastFull = 0n;
  /** By the last grant: no scope is near its limit, so nothing is stranded by leasing for as long as a lease lasts. */
  #isFar = false;
  #fundsOnly: ScopeSet | undefined;
  /** By the last grant: which scope had the least, of those scopes. */
  #scarce: { readonly scopes: string; readonly kind: UsedUp | undefined } | undefined;
  #refusal: { readonly scopes: string; readonly floor: bigint; readonly untilMs: number } | undefined;

  constructor(account: AccountId, deps: PurseDeps) {
    this.account = account;
    this.#deps = deps;
    this.#use = new RecentUse(deps.clock.monotonicMs());
  }

  /** At once while every scope's slice has room and nobody waits. */
  hold(request: HoldRequest): Hold | Promise<Hold> {
    const nowMs = this.#deps.clock.monotonicMs();
    const scopes = this.#scopesOf(request);
    this.#use.add(request.full, nowMs);
    this.#lastFull = request.full;
    if (this.#waiters.length === 0) {
      const slices = this.#usable(scopes, nowMs);
      if (slices && leastFree(slices) >= request.full) {
        const held = this.#open(request, request.full, slices, nowMs);
        if (leastFree(slices) < this.#headroom(nowMs) / 2n) this.#refill(scopes);
        return held;
      }
      this.#throwIfJustRefused(request, scopes, nowMs);
    }
    return new Promise<Hold>((resolve, reject) => {
      this.#waiters.push({ request, scopes, resolve, reject, wasCounted: false });
      void this.#grantWhileWaiting();
    });
  }

  /** Nothing more is admitted from the slice. */
  retire(slice: Slice): void {
    slice.isRetired = true;
    const { budgetId } = slice.budget;
    if (this.#current.get(budgetId) === slice) this.#current.delete(budgetId);
  }

  /** A limit may have been raised. */
  forgetRefusals(): void {
    this.#refusal = undefined;
  }

  get isEmpty(): boolean {
    return this.#current.size === 0 && this.#waiters.length === 0 && !this.#isGranting;
  }

  /** More free money than the coming seconds want. */
  excess(slice: Slice, nowMs: number): bigint {
    const most = this.#headroom(nowMs) * 3n;
    const free = freeOf(slice);
    return free > most ? free - most : 0n;
  }

  /** Most callers have no limits but their account's funds: their scopes never change. */
  #scopesOf(request: HoldRequest): ScopeSet {
    const { spending } = request;
    if (spending.token || spending.hasAccountLimit || (spending.hasKeyLimit && request.key !== "")) {
      return scopesOf(request, request.admittedAtMs);
    }
    this.#fundsOnly ??= scopesOf(request, 0);
    return this.#fundsOnly;
  }

  #usable({ scopes }: ScopeSet, nowMs: number): Slice[] | undefined {
    const slices: Slice[] = [];
    for (const { budgetId } of scopes) {
      const slice = this.#current.get(budgetId);
      if (!slice || this.#isLate(slice, nowMs)) return undefined;
      slices.push(slice);
    }
    return slices;
  }

  /** So near its end that nothing more is admitted from it. */
  #isLate(slice: Slice | undefined, nowMs: number): boolean {
    return slice !== undefined && nowMs >= slice.deadlineMs - this.#deps.timing.marginMs;
  }

  #open(request: HoldRequest, amount: bigint, slices: readonly Slice[], nowMs: number): HeldMoney {
    let deadlineMs = Number.POSITIVE_INFINITY;
    for (const slice of slices) {
      slice.usedAtMs = nowMs;
      if (slice.deadlineMs < deadlineMs) deadlineMs = slice.deadlineMs;
    }
    const expiresAtMs = Math.floor(this.#deps.clock.unixMs() + deadlineMs - nowMs);
    const held = new HeldMoney(request.requestId, nano(amount) as NanoUsd, slices, expiresAtMs, this.#deps.ends);
    this.#deps.opened(held);
    return held;
  }

  #headroom(nowMs: number): bigint {
    return this.#isFar ? this.#lasting(nowMs) : this.#ahead(aheadSeconds, nowMs);
  }

  /** What keeps serving while PostgreSQL is away, until the lease ends. */
  #lasting(nowMs: number): bigint {
    return this.#ahead(this.#deps.timing.ttlMs / 1000, nowMs);
  }

  #ahead(seconds: number, nowMs: number): bigint {
    const byRate = this.#use.expect(seconds, nowMs, mostAhead);
    const byLast = this.#lastFull * aheadRequests;
    return byRate > byLast ? byRate : byLast;
  }

  #throwIfJustRefused(request: HoldRequest, scopes: ScopeSet, nowMs: number): void {
    const refusal = this.#refusal;
    if (!refusal || nowMs >= refusal.untilMs || request.floor < refusal.floor) return;
    if (refusal.scopes === scopes.name) throw this.#noRoom(scopes);
  }

  #noRoom({ name }: ScopeSet): InsufficientFunds {
    return new InsufficientFunds(this.#scarce?.scopes === name ? this.#scarce.kind : undefined);
  }

  #refill(scopes: ScopeSet): void {
    if (this.#isGranting) return;
    this.#isGranting = true;
    this.#grant(scopes, [])
      .catch(this.#deps.refillFailed)
      .finally(() => {
        this.#isGranting = false;
        void this.#grantWhileWaiting();
      });
  }

  async #grantWhileWaiting(): Promise<void> {
    if (this.#isGranting) return;
    this.#isGranting = true;
    try {
      while (this.#waiters.length > 0) await this.#grantToWaiters();
    } finally {
      this.#isGranting = false;
    }
  }

  /** Those who want the same scopes as the first in the queue share one grant. */
  async #grantToWaiters(): Promise<void> {
    const scopes = (this.#waiters[0] as Waiter).scopes;
    const isMine = (waiter: Waiter) => waiter.scopes.name === scopes.name;
    // What came back since they queued may do; otherwise a transaction.
    this.#serve(scopes, isMine);
    const mine = this.#waiters.filter(isMine);
    if (mine.length === 0) return;
    try {
      await this.#grant(scopes, mine);
      this.#serve(scopes, isMine);
    } catch (error) {
      // Also those who came while it was tried: whoever leaves the queue is answered.
      const refused = this.#waiters.filter(isMine);
      this.#waiters = this.#waiters.filter((waiter) => !isMine(waiter));
      const reason = error instanceof SpendingSuspended ? error : new BudgetStoreAway(error);
      for (const waiter of refused) waiter.reject(reason);
    }
  }

  async #grant(scopes: ScopeSet, waiters: readonly Waiter[]): Promise<void> {
    const { store, replica, clock, timing, metrics } = this.#deps;
    if (waiters.length > 0) {
      // Somebody waits because room is scarce: what lies in retired slices is room too.
      for (const { budgetId } of scopes.scopes) this.#retireLate(budgetId, clock.monotonicMs());
      await this.#deps.reclaim(this.account);
    }
    const sentAtMs = clock.monotonicMs();
    const slices = scopes.scopes.map((scope) => this.#sliceFor(scope, sentAtMs));
    for (const slice of slices) slice.moves += 1;
    try {
      const outcome = await store.grant(
        replica,
        slices.map((slice) => ({
          budget: slice.budget,
          leaseId: slice.leaseId,
          free: freeOf(slice),
          isNew: !this.#deps.slices.has(slice.leaseId),
        })),
        timing.ttlMs,
        (purchases) => {
          this.#isFar = isFarFromLimit(purchases, this.#lasting(sentAtMs));
          this.#scarce = { scopes: scopes.name, kind: scopes.scopes[scarcest(purchases)]?.kind };
          const wants = waiters.map((waiter) => waiter.request);
          return grantSizes(purchases, wants, this.#headroom(sentAtMs));
        },
      );
      if (outcome.kind === "gone") {
        for (const slice of slices) if (outcome.leaseIds.includes(slice.leaseId)) this.#forget(slice);
        return;
      }
      if (outcome.kind === "suspended") {
        if (waiters.length > 0) throw new SpendingSuspended(outcome.reason);
        return;
      }
      // Recalled meanwhile: what was granted goes back, and everybody stays for a grant of the new state.
      const isRecalled = slices.some((slice) => slice.isRetired);
      for (const waiter of waiters) waiter.wasCounted = !isRecalled;
      const total = outcome.amounts.reduce((sum, amount) => sum + amount, 0n);
      for (const [i, slice] of slices.entries()) {
        const amount = outcome.amounts[i] ?? 0n;
        // A lease that would hold nothing was not made.
        if (amount === 0n && !this.#deps.slices.has(slice.leaseId)) continue;
        slice.granted += amount;
        this.#deps.slices.set(slice.leaseId, slice);
        if (!slice.isRetired) this.#current.set(slice.budget.budgetId, slice);
      }
      if (total === 0n && waiters.length > 0) metrics.leaseGrants.inc({ result: "refused" });
      else if (total > 0n) metrics.leaseGrants.inc({ result: this.#isFull(scopes, waiters) ? "full" : "partial" });
    } finally {
      for (const slice of slices) {
        slice.moves -= 1;
        slice.moved += 1;
      }
    }
  }

  /** The current slice, or a new one that the database does not know yet. A slice near its end is replaced, not topped up. */
  #sliceFor(budget: BudgetScope, nowMs: number): Slice {
    this.#retireLate(budget.budgetId, nowMs);
    const current = this.#current.get(budget.budgetId);
    if (current) return current;
    return {
      leaseId: randomId<"lease">(16),
      budget,
      account: this.account,
      granted: 0n,
      settled: 0n,
      reserved: 0n,
      deadlineMs: nowMs + this.#deps.timing.ttlMs,
      renewedAtMs: nowMs,
      bornAtMs: nowMs,
      usedAtMs: nowMs,
      openHolds: 0,
      unrecorded: 0,
      isRetired: false,
      moves: 0,
      moved: 0,
    };
  }

  #retireLate(budgetId: BudgetId, nowMs: number): void {
    const current = this.#current.get(budgetId);
    if (current && this.#isLate(current, nowMs)) this.retire(current);
  }

  #isFull({ scopes }: ScopeSet, waiters: readonly Waiter[]): boolean {
    const wanted = waiters.reduce((sum, waiter) => sum + waiter.request.full, 0n);
    return scopes.every(({ budgetId }) => {
      const slice = this.#current.get(budgetId);
      return slice !== undefined && freeOf(slice) >= wanted;
    });
  }

  /**
   * In order: full holds; to those a grant was sized for also what is left, or a refusal. The others stay. A slice that ran
   * out meanwhile says nothing about the money: everybody stays for the grant of a fresh one.
   */
  #serve(scopes: ScopeSet, isMine: (waiter: Waiter) => boolean): void {
    const nowMs = this.#deps.clock.monotonicMs();
    const isLate = scopes.scopes.some(({ budgetId }) => this.#isLate(this.#current.get(budgetId), nowMs));
    const staying: Waiter[] = [];
    for (const waiter of this.#waiters) {
      if (!isMine(waiter)) {
        staying.push(waiter);
        continue;
      }
      const { floor, full } = waiter.request;
      const slices = this.#usable(scopes, nowMs);
      const free = slices ? leastFree(slices) : 0n;
      if (slices && (free >= full || (waiter.wasCounted && free >= floor))) {
        waiter.resolve(this.#open(waiter.request, free < full ? free : full, slices, nowMs));
      } else if (waiter.wasCounted && !isLate) {
        this.#refusal = { scopes: scopes.name, floor, untilMs: nowMs + refusalMs };
        waiter.reject(this.#noRoom(scopes));
      } else {
        waiter.wasCounted = false;
        staying.push(waiter);
      }
    }
    this.#waiters = staying;
  }

  #forget(slice: Slice): void {
    this.retire(slice);
    this.#deps.slices.delete(slice.leaseId);
  }
}

function leastFree(slices: readonly Slice[]): bigint {
  let least = freeOf(slices[0] as Slice);
  for (const slice of slices) {
    const free = freeOf(slice);
    if (free < least) least = free;
  }
  return least;
}
