import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import { pause } from "../../proto/pause.ts";
import { background, repeat } from "../../proto/repeat.ts";
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
import { LeaseUpkeep, type LeaseUpkeepDeps } from "./lease-upkeep.ts";
import type { BillingMetrics } from "./metrics.ts";
import { type BudgetScope, providerScopes, type ScopeSet, scopesOf } from "./scopes.ts";
import { type Slice, Slices, type SliceTiming, sliceTiming } from "./slices.ts";
import type { LeaseStore, Replica } from "./store.ts";

export interface BudgetsDeps
  extends Pick<LeaseUpkeepDeps, "store" | "replica" | "log" | "metrics" | "openLeaseIds" | "voidedLeases"> {
  readonly clock?: Clock;
  readonly timing?: Partial<SliceTiming>;
}

export interface RunningBudgets extends Budgets {
  start(): void;
  /** Returns what no request holds; what is held or not yet in the ledger stays leased until it is. */
  stop(): Promise<void>;
  /** Runs one round of renewals, look-ups and returns; `start` repeats it every `tickMs`. */
  tick(): Promise<void>;
  /**
   * The limit or status of an account, a provider (`providerPayer`) or a budget (its id) changed: the free part of its slices
   * is returned at once, and the next request reads the database.
   */
  recall(subject: string): void;
}

export function createBudgets(deps: BudgetsDeps): RunningBudgets {
  const { store, replica, metrics } = deps;
  const clock = deps.clock ?? systemClock;
  const timing: SliceTiming = { ...sliceTiming, ...deps.timing };
  const slices = new Slices(clock, timing);
  const purses = new Map<AccountId, Purse>();
  const excess = (slice: Slice, nowMs: number) => purses.get(slice.account)?.excess(slice, nowMs) ?? 0n;
  const upkeep = new LeaseUpkeep({ ...deps, clock, timing, slices, excess });
  const purseDeps = { store, replica, clock, timing, metrics, slices, upkeep };
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
    await upkeep.round();
    for (const [account, purse] of purses) if (purse.isEmpty) purses.delete(account);
  }

  const rounds = background(async (signal) => {
    await pause(timing.tickMs, signal);
    await repeat(timing.tickMs, signal, tick);
  });

  return {
    hold,
    holdProvider,
    tick,
    start: rounds.start,
    async stop() {
      await rounds.stop();
      // A grant that arrives after the return would stay leased until its lease expires.
      await Promise.all([...purses.values()].map((purse) => purse.granted()));
      await upkeep.end();
    },
    recall(subject) {
      for (const purse of purses.values()) purse.forgetRefusals();
      upkeep.recall((slice) => slice.account === subject || slice.budget.budgetId === subject);
    },
  };
}

/** Payer of what a provider costs the operator: slices of a provider have this name in place of an account id. */
export const providerPayer = (provider: DeploymentId): AccountId => `provider/${provider}` as AccountId;

/** Costs nothing, so it reserves nothing in any slice. */
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
  readonly upkeep: Pick<LeaseUpkeep, "failed" | "reclaim">;
}

type PurseRequest = Pick<HoldRequest, "requestId" | "floor" | "full">;

interface Waiter {
  readonly request: PurseRequest;
  readonly scopes: ScopeSet;
  readonly resolve: (hold: Hold) => void;
  readonly reject: (error: unknown) => void;
  /** The amount of a grant included this request. */
  wasCounted: boolean;
}

/** Seconds of expected holds that are leased in advance; far from the limit, the whole time of a lease. */
const aheadSeconds = 3;
/** Minimum number of requests like the last one that are leased in advance. */
const aheadRequests = 4n;
/** Maximum amount that one slice grows by at once: USD 10. */
const maxAdvance = 10_000_000_000n;
/** Time for which an equal request is refused without a transaction, so that retries do not cost one each. */
const refusalMs = 250;

class Purse {
  readonly account: AccountId;
  readonly #deps: PurseDeps;
  readonly #use: RecentUse;
  #waiters: Waiter[] = [];
  #isGranting = false;
  /** Grants in flight. */
  #granting: Promise<void> = Promise.resolve();
  #lastFull = 0n;
  /** At the last grant no scope was near its limit, so that leasing for the time of a whole lease strands nothing. */
  #isFar = false;
  #fundsOnly: ScopeSet | undefined;
  /** Scope that had the least at the last grant, with the name of its set. */
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

  /** Resolves when no grant is in flight: `slices` then has what it leased. */
  async granted(): Promise<void> {
    while (this.#isGranting) await this.#granting;
  }

  get isEmpty(): boolean {
    return !this.#deps.slices.hasCurrent(this.account) && this.#waiters.length === 0 && !this.#isGranting;
  }

  /** Free money above what the next seconds need. */
  excess(slice: Slice, nowMs: number): bigint {
    const max = this.#headroom(nowMs) * 3n;
    return slice.free > max ? slice.free - max : 0n;
  }

  /** Most callers have only the limit of their account's funds: their scopes never change. */
  scopesOf(request: HoldRequest): ScopeSet {
    const { token, hasAccountLimit, hasKeyLimit, project } = request.spending;
    if (token || hasAccountLimit || project !== undefined || (hasKeyLimit && request.key !== "")) {
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
    if (refusal.scopes === scopes.name) throw this.#noFunds(scopes);
  }

  #noFunds({ name, scopes }: ScopeSet): ServiceError {
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
      if (ahead) await this.#grant(ahead, []).catch(this.#deps.upkeep.failed);
      while (this.#waiters.length > 0) await this.#grantToWaiters();
    } finally {
      // Synchronously after no waiter was found: a later request starts the next grant.
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
      // Requests wait because money is scarce: use that of retired slices too.
      slices.retireLate(this.account, scopes, clock.monotonicMs());
      await this.#deps.upkeep.reclaim(this.account);
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
    // After a recall the granted money is returned, and every request waits for a grant under the new limits.
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
   * Serves waiters in order with full holds. Those that a grant included also get what is left, or a refusal. The others stay
   * queued. If a slice reached its deadline in the meantime, all stay queued for a new one.
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
        waiter.reject(this.#noFunds(scopes));
      } else {
        waiter.wasCounted = false;
        staying.push(waiter);
      }
    }
    this.#waiters = staying;
  }
}
