// The requests of one account that wait for a grant. One grant runs at a time and serves all that wait; none overtakes them.
import type { AccountId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import type { Clock } from "./clock.ts";
import { grantSizes, isFarFromLimit, RecentUse, scarcest } from "./grant-size.ts";
import { type Hold, type HoldRequest, InsufficientFunds, SpendingSuspended, type UsedUp } from "./hold.ts";
import type { BillingMetrics } from "./metrics.ts";
import { type ScopeSet, scopesOf } from "./scopes.ts";
import type { Slice, Slices, SliceTiming } from "./slices.ts";
import type { LeaseStore, Replica } from "./store.ts";

export interface PurseDeps {
  readonly store: LeaseStore;
  readonly replica: Replica;
  readonly clock: Clock;
  readonly timing: SliceTiming;
  readonly metrics: BillingMetrics;
  readonly slices: Slices;
  /** A refill that no request waits for failed. */
  readonly refillFailed: (error: unknown) => void;
  /** Returns the free part of the account's retired slices. */
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

/** Seconds of expected holds that are leased in advance; where the limit is far, the whole time of a lease. */
const aheadSeconds = 3;
/** Minimum number of requests like the last one that are leased in advance. */
const aheadRequests = 4n;
/** Maximum amount that one slice grows by at once: USD 10. */
const maxAdvance = 10_000_000_000n;
/** How long an equal request is refused without a transaction, so that retries do not cost one each. */
const refusalMs = 250;

export class Purse {
  readonly account: AccountId;
  readonly #deps: PurseDeps;
  readonly #use: RecentUse;
  #waiters: Waiter[] = [];
  #isGranting = false;
  /** The grants in flight. */
  #granting: Promise<void> = Promise.resolve();
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

  /** Returns a hold at once while every scope's slice has enough and no request waits. */
  hold(request: HoldRequest): Hold | Promise<Hold> {
    const nowMs = this.#deps.clock.monotonicMs();
    const scopes = this.#scopesOf(request);
    this.#use.add(request.full, nowMs);
    this.#lastFull = request.full;
    if (this.#waiters.length === 0) {
      const held = this.#open(request, scopes, request.full, nowMs);
      if (held) {
        const free = this.#free(scopes, nowMs) ?? 0n;
        if (free < this.#headroom(nowMs) / 2n) this.#refill(scopes);
        return held;
      }
      this.#throwIfJustRefused(request, scopes, nowMs);
    }
    return new Promise<Hold>((resolve, reject) => {
      this.#waiters.push({ request, scopes, resolve, reject, wasCounted: false });
      this.#grantWhileWaiting();
    });
  }

  /** Call when a limit may have been raised. */
  forgetRefusals(): void {
    this.#refusal = undefined;
  }

  /** Resolves when no grant is in flight: what it leased is in `slices` then. */
  async granted(): Promise<void> {
    while (this.#isGranting) await this.#granting;
  }

  get isEmpty(): boolean {
    return !this.#deps.slices.hasCurrent(this.account) && this.#waiters.length === 0 && !this.#isGranting;
  }

  /** Free money above what the next seconds need. */
  excess(slice: Slice, nowMs: number): bigint {
    const most = this.#headroom(nowMs) * 3n;
    return slice.free > most ? slice.free - most : 0n;
  }

  /** Most callers have only the limit of their account's funds: their scopes never change. */
  #scopesOf(request: HoldRequest): ScopeSet {
    const { spending } = request;
    if (spending.token || spending.hasAccountLimit || (spending.hasKeyLimit && request.key !== "")) {
      return scopesOf(request, request.admittedAtMs);
    }
    this.#fundsOnly ??= scopesOf(request, 0);
    return this.#fundsOnly;
  }

  #free({ scopes }: ScopeSet, nowMs: number): bigint | undefined {
    return this.#deps.slices.free(this.account, scopes, nowMs);
  }

  #open({ requestId, full }: HoldRequest, { scopes }: ScopeSet, floor: NanoUsd, nowMs: number): Hold | undefined {
    return this.#deps.slices.hold(this.account, scopes, { requestId, floor, full }, nowMs);
  }

  #headroom(nowMs: number): bigint {
    return this.#isFar ? this.#lasting(nowMs) : this.#ahead(aheadSeconds, nowMs);
  }

  /** Enough to serve until the lease ends while PostgreSQL is unavailable. */
  #lasting(nowMs: number): bigint {
    return this.#ahead(this.#deps.timing.ttlMs / 1000, nowMs);
  }

  #ahead(seconds: number, nowMs: number): bigint {
    const byRate = this.#use.expect(seconds, nowMs, maxAdvance);
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
    if (!this.#isGranting) this.#granting = this.#grantAll(scopes);
  }

  #grantWhileWaiting(): void {
    if (!this.#isGranting) this.#granting = this.#grantAll();
  }

  /** Leases in advance for `ahead`, then grants until no request waits. */
  async #grantAll(ahead?: ScopeSet): Promise<void> {
    this.#isGranting = true;
    try {
      if (ahead) await this.#grant(ahead, []).catch(this.#deps.refillFailed);
      while (this.#waiters.length > 0) await this.#grantToWaiters();
    } finally {
      // In the same turn that found no waiter: a later request starts the next grant.
      this.#isGranting = false;
    }
  }

  /** Requests with the same scopes as the first in the queue share one grant. */
  async #grantToWaiters(): Promise<void> {
    const scopes = (this.#waiters[0] as Waiter).scopes;
    const isMine = (waiter: Waiter) => waiter.scopes.name === scopes.name;
    // Money returned since they queued may be enough; otherwise a transaction.
    this.#serve(scopes, isMine);
    const mine = this.#waiters.filter(isMine);
    if (mine.length === 0) return;
    try {
      await this.#grant(scopes, mine);
      this.#serve(scopes, isMine);
    } catch (error) {
      // Also those queued during the attempt: every waiter that leaves the queue gets a result.
      const refused = this.#waiters.filter(isMine);
      this.#waiters = this.#waiters.filter((waiter) => !isMine(waiter));
      const reason = error instanceof SpendingSuspended ? error : DatabaseUnavailable.from(error);
      for (const waiter of refused) waiter.reject(reason);
    }
  }

  async #grant(set: ScopeSet, waiters: readonly Waiter[]): Promise<void> {
    const { store, replica, clock, timing, metrics, slices } = this.#deps;
    const { name, scopes } = set;
    if (waiters.length > 0) {
      // Requests wait because room is scarce: what lies in retired slices is room too.
      slices.retireLate(this.account, scopes, clock.monotonicMs());
      await this.#deps.reclaim(this.account);
    }
    const { outcome, isRecalled } = await slices.grant(this.account, scopes, (wanted, sentAtMs) =>
      store.grant(replica, wanted, timing.ttlMs, (purchases) => {
        this.#isFar = isFarFromLimit(purchases, this.#lasting(sentAtMs));
        this.#scarce = { scopes: name, kind: scopes[scarcest(purchases)]?.kind };
        const wants = waiters.map((waiter) => waiter.request);
        return grantSizes(purchases, wants, this.#headroom(sentAtMs));
      }),
    );
    if (outcome.kind === "gone") return;
    if (outcome.kind === "suspended") {
      if (waiters.length > 0) throw new SpendingSuspended(outcome.reason);
      return;
    }
    // After a recall the granted money is returned, and every request waits for a grant of the new state.
    for (const waiter of waiters) waiter.wasCounted = !isRecalled;
    const isNothing = outcome.amounts.every((amount) => amount === 0n);
    if (!isNothing) metrics.leaseGrants.inc({ result: this.#isFull(set, waiters) ? "full" : "partial" });
    else if (waiters.length > 0) metrics.leaseGrants.inc({ result: "refused" });
  }

  #isFull(scopes: ScopeSet, waiters: readonly Waiter[]): boolean {
    const wanted = waiters.reduce((sum, waiter) => sum + waiter.request.full, 0n);
    return (this.#free(scopes, this.#deps.clock.monotonicMs()) ?? -1n) >= wanted;
  }

  /**
   * In order: full holds; to those a grant was sized for also what is left, or a refusal. The others stay. A slice that ran
   * out meanwhile says nothing about the money: everybody stays for the grant of a fresh one.
   */
  #serve(scopes: ScopeSet, isMine: (waiter: Waiter) => boolean): void {
    const nowMs = this.#deps.clock.monotonicMs();
    const isLate = this.#deps.slices.hasLate(this.account, scopes.scopes, nowMs);
    const staying: Waiter[] = [];
    for (const waiter of this.#waiters) {
      if (!isMine(waiter)) {
        staying.push(waiter);
        continue;
      }
      const { floor, full } = waiter.request;
      const held = this.#open(waiter.request, scopes, waiter.wasCounted ? floor : full, nowMs);
      if (held) {
        waiter.resolve(held);
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
}
