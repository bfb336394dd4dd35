// Holds for requests, inside slices of budgets leased from PostgreSQL (promises 2.2): renewal, return and sweep of leases.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import { DatabaseUnavailable, type ServiceError } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";
import { grantSizes, isFarFromLimit, RecentUse, scarcest } from "./grant-size.ts";
import {
  type Budgets,
  type Hold,
  type HoldRequest,
  InsufficientFunds,
  type ProviderHoldRequest,
  ProviderLimitReached,
  SpendingSuspended,
} from "./hold.ts";
import type { BillingMetrics } from "./metrics.ts";
import { type BudgetScope, providerScopes, type ScopeSet, scopesOf } from "./scopes.ts";
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
   * The limit or standing of an account, a provider (`providerPayer`) or a budget (its id) changed: what is free of its slices goes back at once, and the
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
    const purse = purseOf(request.account);
    return purse.hold(request, purse.scopesOf(request));
  }

  function holdProvider(request: ProviderHoldRequest): Hold | Promise<Hold> {
    const { provider, requestId, amount } = request;
    const [month, day] = providerScopes(provider, request.admittedAtMs);
    const scopes = [...(request.hasMonthLimit ? [month] : []), ...(request.hasDayLimit ? [day] : [])];
    if (amount === 0n || scopes.length === 0) return freeHold(clock.unixMs() + timing.ttlMs);
    const name = scopes.map(({ budgetId }) => budgetId).join();
    return purseOf(providerPayer(provider)).hold({ requestId, floor: amount, full: amount }, { name, scopes });
  }

  function purseOf(payer: AccountId): Purse {
    let purse = purses.get(payer);
    if (!purse) {
      purse = new Purse(payer, purseDeps);
      purses.set(payer, purse);
    }
    return purse;
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
    holdProvider,
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

/** The operator pays a provider: its slices are kept under this name, as those of an account are under its id. */
export const providerPayer = (provider: DeploymentId): AccountId => `provider/${provider}` as AccountId;

const atLeastZero = (amount: bigint): bigint => (amount > 0n ? amount : 0n);

/** Costs nothing, so it lies on no slice. */
function freeHold(expiresAtMs: number): Hold {
  return { amount: nano(0n), leaseIds: [], expiresAtMs, settle() {}, release() {}, awaitRecord() {} };
}

interface PurseDeps {
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

type PurseRequest = Pick<HoldRequest, "requestId" | "floor" | "full">;

interface Waiter {
  readonly request: PurseRequest;
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

class Purse {
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
  #scarce: { readonly scopes: string; readonly kind: BudgetScope["kind"] | undefined } | undefined;
  #refusal: { readonly scopes: string; readonly floor: bigint; readonly untilMs: number } | undefined;

  constructor(account: AccountId, deps: PurseDeps) {
    this.account = account;
    this.#deps = deps;
    this.#use = new RecentUse(deps.clock.monotonicMs());
  }

  /** Returns a hold at once while every scope's slice has enough and no request waits. */
  hold(request: PurseRequest, scopes: ScopeSet): Hold | Promise<Hold> {
    const nowMs = this.#deps.clock.monotonicMs();
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
  scopesOf(request: HoldRequest): ScopeSet {
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

  #open({ requestId, full }: PurseRequest, { scopes }: ScopeSet, floor: NanoUsd, nowMs: number): Hold | undefined {
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

  #throwIfJustRefused(request: PurseRequest, scopes: ScopeSet, nowMs: number): void {
    const refusal = this.#refusal;
    if (!refusal || nowMs >= refusal.untilMs || request.floor < refusal.floor) return;
    if (refusal.scopes === scopes.name) throw this.#noRoom(scopes);
  }

  #noRoom({ name, scopes }: ScopeSet): ServiceError {
    const kind = this.#scarce?.scopes === name ? this.#scarce.kind : undefined;
    if (scopes[0]?.provider !== undefined || kind === "provider_month" || kind === "provider_day")
      return new ProviderLimitReached();
    return new InsufficientFunds(kind);
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
