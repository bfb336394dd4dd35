// Money of this replica: slices (one per lease) and the holds of requests on them, changed only here. INVARIANTS: a slice's
// free part is what PostgreSQL granted, less what the ledger took, less what its holds reserve; no hold and no return takes
// more than is free; a retired slice takes no new hold; an ended hold reserves its rest until its record is durable.
import { type AccountId, type BudgetId, type LeaseId, type RequestId, randomId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import type { Clock } from "./clock.ts";
import type { Hold, HoldRequest } from "./hold.ts";
import type { BudgetScope } from "./scopes.ts";
import type { GiveBack, GivenBack, GrantOutcome, GrantScope, LeaseState, SyncOutcome } from "./store.ts";

export interface SliceTiming {
  readonly ttlMs: number;
  readonly renewEveryMs: number;
  /** The slice admits nothing in this last part of its lease, so that each ticket stays valid long enough to be used. */
  readonly marginMs: number;
  /** After this time without use, the free part of a slice is returned. */
  readonly idleMs: number;
  /** After this time a new lease replaces a slice, so that a request whose record never arrives cannot keep it open forever. */
  readonly maxAgeMs: number;
  /** A retired slice waits this long for missing records, then expires. */
  readonly forgetMs: number;
  /** After this time the gateway stores its own usage figures of a response: the record may be lost with its agent's disk. */
  readonly overdueMs: number;
  readonly tickMs: number;
  readonly sweepEveryMs: number;
  /** Time after the expiry of a dead replica's lease before it is returned: agents need time to report it as open. */
  readonly sweepGraceMs: number;
}

export const sliceTiming: SliceTiming = {
  ttlMs: 30_000,
  renewEveryMs: 10_000,
  marginMs: 3_000,
  idleMs: 5_000,
  maxAgeMs: 300_000,
  forgetMs: 60_000,
  overdueMs: 30_000,
  tickMs: 500,
  sweepEveryMs: 10_000,
  sweepGraceMs: 15_000,
};

/** Every duration multiplied by `scale`. */
export const scaledTiming = (scale: number): SliceTiming =>
  Object.fromEntries(Object.entries(sliceTiming).map(([span, ms]) => [span, ms * scale])) as unknown as SliceTiming;

/** Maximum requests whose records one renewal looks for. */
const maxLookups = 2_000;

/** One lease as its replica sees it. */
class LeasedSlice {
  readonly leaseId: LeaseId = randomId<"lease">(16);
  readonly account: AccountId;
  readonly budget: BudgetScope;
  readonly #timing: SliceTiming;
  readonly #bornAtMs: number;
  #granted = 0n;
  /** As last read from the lease row: charges of durable records. */
  #settled = 0n;
  /** Amounts of running holds and rests of ended ones. */
  #reserved = 0n;
  // Counts instead of sets of holds: proto/slot-list.ts says what a set costs.
  #runningCount = 0;
  /** Holds of ended requests whose record is not durable yet. */
  #endedCount = 0;
  /** Monotonic. PostgreSQL's own expiry is later: it counts from when the renewal arrived, this from when it was sent. */
  deadlineMs: number;
  #renewedAtMs: number;
  #usedAtMs: number;
  /** Takes no new hold; is returned as its requests end. */
  isRetired = false;
  /** No longer this replica's: a reply that is still on its way must not bring it back. */
  isRemoved = false;
  /** Grants and returns in flight: while one is, `granted` in the database may be on either side of it. */
  moves = 0;
  /** Grants and returns that ended. */
  moved = 0;

  constructor(account: AccountId, budget: BudgetScope, timing: SliceTiming, nowMs: number) {
    this.account = account;
    this.budget = budget;
    this.#timing = timing;
    this.#bornAtMs = nowMs;
    this.deadlineMs = nowMs + timing.ttlMs;
    this.#renewedAtMs = nowMs;
    this.#usedAtMs = nowMs;
  }

  /** Below 0 after charges above the hold. */
  get free(): bigint {
    return this.#granted - this.#settled - this.#reserved;
  }

  get leased(): bigint {
    return this.#granted - this.#settled;
  }

  get unrecordedCount(): number {
    return this.#endedCount;
  }

  get hasHolds(): boolean {
    return this.#runningCount > 0 || this.#endedCount > 0;
  }

  /** So close to its deadline that it admits nothing more. */
  isLate(nowMs: number): boolean {
    return nowMs >= this.deadlineMs - this.#timing.marginMs;
  }

  isIdle(nowMs: number): boolean {
    return this.isRetired || nowMs - this.#usedAtMs >= this.#timing.idleMs;
  }

  isOld(nowMs: number): boolean {
    return nowMs - this.#bornAtMs >= this.#timing.maxAgeMs;
  }

  /** Due for a renewal, which also looks for missing records. */
  isDue(nowMs: number): boolean {
    return this.#endedCount > 0 || this.isIdle(nowMs) || nowMs - this.#renewedAtMs >= this.#timing.renewEveryMs;
  }

  /** Only records that did not come in a long time keep it open. */
  isForgotten(nowMs: number): boolean {
    const isUnused = this.#runningCount === 0 && nowMs - this.#usedAtMs >= this.#timing.forgetMs;
    return this.isRetired && isUnused && this.#endedCount > 0;
  }

  reserve(amount: bigint, nowMs: number): void {
    this.#runningCount += 1;
    this.#reserved += amount;
    this.#usedAtMs = nowMs;
  }

  /** Ends a hold of `amount`, once; keeps `rest` until the record of the request is durable. */
  end(amount: bigint, rest: bigint, nowMs: number): void {
    this.#runningCount -= 1;
    this.#reserved -= amount - rest;
    if (rest > 0n) this.#endedCount += 1;
    this.#usedAtMs = nowMs;
  }

  /** Drops the rest of an ended hold, once: the record of the request is durable. */
  drop(rest: bigint): void {
    this.#reserved -= rest;
    this.#endedCount -= 1;
  }

  add(amount: bigint): void {
    this.#granted += amount;
  }

  take(amount: bigint): void {
    if (amount > 0n && amount > this.free) throw new RangeError("a return must fit into the free part of its slice");
    this.#granted -= amount;
  }

  /** Returns what takes over a renewal that is sent now. */
  renewal(sentAtMs: number): (state: LeaseState) => void {
    const before = this.moves > 0 ? undefined : this.moved;
    return ({ granted, settled }) => {
      this.#settled = settled;
      // After a grant or return in between, `granted` may be of before it.
      if (before === this.moved && this.moves === 0) this.#granted = granted;
      this.deadlineMs = sentAtMs + this.#timing.ttlMs;
      this.#renewedAtMs = sentAtMs;
    };
  }
}

/** Read access to a slice for other files. */
export type Slice = Readonly<
  Pick<LeasedSlice, "leaseId" | "account" | "budget" | "free" | "isIdle" | "isRetired" | "moves" | "hasHolds">
>;

/** One request's part of its slices, one per scope. */
class HeldMoney implements Hold {
  readonly requestId: RequestId;
  readonly amount: NanoUsd;
  readonly leaseIds: readonly LeaseId[];
  readonly expiresAtMs: number;
  readonly slices: readonly LeasedSlice[];
  /** Reserved after the end until a record covers `attempt`. */
  rest = 0n;
  attempt = 1;
  /** Monotonic ms. */
  endedAtMs = 0;
  /** Called once if the record is not durable in time. */
  overdue: (() => void) | undefined;
  /** `overdue` reports the figures of a whole reply, not what a client had received that left. */
  isWhole = false;
  /** Undefined after the first end. */
  #end: ((held: HeldMoney) => void) | undefined;

  constructor(
    requestId: RequestId,
    amount: bigint,
    { slices, leaseIds }: SliceSet,
    expiresAtMs: number,
    end: (held: HeldMoney) => void,
  ) {
    this.requestId = requestId;
    this.amount = nano(amount);
    this.slices = slices;
    this.leaseIds = leaseIds;
    this.expiresAtMs = expiresAtMs;
    this.#end = end;
  }

  /** A later attempt voids this one for the customer; a provider is paid for each. */
  isCoveredBy(recorded: readonly number[]): boolean {
    const isOfProvider = this.slices[0]?.budget.provider !== undefined;
    return recorded.some((attempt) => (isOfProvider ? attempt === this.attempt : attempt >= this.attempt));
  }

  settle(cost: NanoUsd, attempt = 1, overdue?: () => void): void {
    this.isWhole = true;
    this.#endWith(cost < this.amount ? cost : this.amount, attempt, overdue);
  }

  release(): void {
    this.#endWith(0n);
  }

  awaitRecord(attempt = 1, overdue?: () => void): void {
    this.#endWith(this.amount, attempt, overdue);
  }

  #endWith(rest: bigint, attempt = 1, overdue?: () => void): void {
    const end = this.#end;
    if (!end) return;
    this.#end = undefined;
    this.rest = rest > 0n ? rest : 0n;
    this.attempt = attempt;
    this.overdue = overdue;
    end(this);
  }
}

/**
 * Current slices of a set of scopes. Holds share one object, because each keeps it until its record is durable. Requests of keys and projects
 * with limits of their own have new scopes each, and share none.
 */
interface SliceSet {
  readonly scopes: readonly BudgetScope[];
  readonly slices: readonly LeasedSlice[];
  readonly leaseIds: readonly LeaseId[];
}

/** Part of a slice that is returned. */
export type Part = readonly [slice: Slice, amount: bigint];

export class Slices {
  readonly #clock: Clock;
  readonly #timing: SliceTiming;
  /** Those with a lease, also retired ones. */
  readonly #leased = new Map<LeaseId, LeasedSlice>();
  /** Those that take new holds, by account and budget. */
  readonly #current = new Map<AccountId, Map<BudgetId, LeasedSlice>>();
  /** The last set of each account, until one of its current slices changes. */
  readonly #sets = new Map<AccountId, SliceSet>();
  /** Ended holds without a durable record. A job that runs again has a second one under the same request id. */
  readonly #unrecorded = new Set<HeldMoney>();
  #runningCount = 0;
  #runningAmount = 0n;

  constructor(clock: Clock, timing: SliceTiming) {
    this.#clock = clock;
    this.#timing = timing;
  }

  [Symbol.iterator](): Iterator<Slice> {
    return this.#leased.values();
  }

  get figures() {
    const { size } = this.#unrecorded;
    return {
      holds: this.#runningCount + size,
      holdAmount: [...this.#unrecorded].reduce((sum, held) => sum + held.rest, this.#runningAmount),
      leases: this.#leased.size,
      leased: [...this.#leased.values()].reduce((sum, slice) => sum + slice.leased, 0n),
    };
  }

  hasCurrent(account: AccountId): boolean {
    return this.#current.has(account);
  }

  /** Amount that the slices of all scopes have free; undefined when one has no slice that admits requests now. */
  free(account: AccountId, scopes: readonly BudgetScope[], nowMs: number): bigint | undefined {
    const usable = this.#usable(account, scopes, nowMs);
    return usable && minFree(usable.slices);
  }

  /** Holds `full`, or what is free if that is at least `floor`; undefined when less is free. */
  hold(
    account: AccountId,
    scopes: readonly BudgetScope[],
    { requestId, floor, full }: Pick<HoldRequest, "requestId" | "floor" | "full">,
    nowMs: number,
  ): Hold | undefined {
    const usable = this.#usable(account, scopes, nowMs);
    if (!usable) return undefined;
    const { slices } = usable;
    const free = minFree(slices);
    if (free < floor) return undefined;
    const amount = free < full ? free : full;
    let deadlineMs = Number.POSITIVE_INFINITY;
    for (const slice of slices) if (slice.deadlineMs < deadlineMs) deadlineMs = slice.deadlineMs;
    const expiresAtMs = Math.floor(this.#clock.unixMs() + deadlineMs - nowMs);
    const held = new HeldMoney(requestId, amount, usable, expiresAtMs, this.#endHold);
    for (const slice of slices) slice.reserve(amount, nowMs);
    this.#runningCount += 1;
    this.#runningAmount += amount;
    return held;
  }

  /** Undefined when a scope has no slice that admits requests now. */
  #usable(account: AccountId, scopes: readonly BudgetScope[], nowMs: number): SliceSet | undefined {
    const known = this.#sets.get(account);
    const set = known?.scopes === scopes ? known : this.#setOf(account, scopes);
    if (!set) return undefined;
    for (const slice of set.slices) if (slice.isLate(nowMs)) return undefined;
    return set;
  }

  #setOf(account: AccountId, scopes: readonly BudgetScope[]): SliceSet | undefined {
    const current = this.#current.get(account);
    const slices: LeasedSlice[] = [];
    for (const { budgetId } of scopes) {
      const slice = current?.get(budgetId);
      if (!slice) return undefined;
      slices.push(slice);
    }
    const set = { scopes, slices, leaseIds: slices.map(({ leaseId }) => leaseId) };
    this.#sets.set(account, set);
    return set;
  }

  readonly #endHold = (held: HeldMoney): void => {
    held.endedAtMs = this.#clock.monotonicMs();
    for (const slice of held.slices) slice.end(held.amount, held.rest, held.endedAtMs);
    this.#runningCount -= 1;
    this.#runningAmount -= held.amount;
    if (held.rest > 0n) this.#unrecorded.add(held);
  };

  /**
   * Leases more of each scope, in new slices where there is no current one or only one that is late. `ask` asks the database;
   * a lease that would hold nothing is not made. Returns its outcome, and whether a slice was retired in the meantime. One
   * grant of an account at a time.
   */
  async grant(
    account: AccountId,
    scopes: readonly BudgetScope[],
    ask: (wanted: readonly GrantScope[], sentAtMs: number) => Promise<GrantOutcome>,
  ): Promise<{ readonly outcome: GrantOutcome; readonly isRecalled: boolean }> {
    const sentAtMs = this.#clock.monotonicMs();
    this.retireLate(account, scopes, sentAtMs);
    const slices = scopes.map(
      (budget) =>
        this.#current.get(account)?.get(budget.budgetId) ?? new LeasedSlice(account, budget, this.#timing, sentAtMs),
    );
    return await moving(slices, async () => {
      const wanted = slices.map((slice): GrantScope => {
        const { budget, leaseId, free } = slice;
        return { budget, leaseId, free, isNew: !this.#leased.has(leaseId) };
      });
      const outcome = await ask(wanted, sentAtMs);
      const isRecalled = slices.some((slice) => slice.isRetired);
      if (outcome.kind === "gone")
        for (const slice of slices) if (outcome.leaseIds.includes(slice.leaseId)) this.#remove(slice);
      if (outcome.kind === "granted")
        for (const [i, slice] of slices.entries()) this.#addGrant(slice, outcome.amounts[i] ?? 0n);
      return { outcome, isRecalled };
    });
  }

  #addGrant(slice: LeasedSlice, amount: bigint): void {
    if (slice.isRemoved || (amount === 0n && !this.#leased.has(slice.leaseId))) return;
    slice.add(amount);
    this.#leased.set(slice.leaseId, slice);
    if (slice.isRetired) return;
    const current = this.#current.get(slice.account) ?? new Map<BudgetId, LeasedSlice>();
    if (current.get(slice.budget.budgetId) === slice) return;
    this.#current.set(slice.account, current.set(slice.budget.budgetId, slice));
    this.#sets.delete(slice.account);
  }

  /** Renews the slices that are due and looks for the records of ended holds; one at a time. False: nothing was due. */
  async renew(
    ask: (leases: readonly LeaseId[], requests: readonly RequestId[]) => Promise<SyncOutcome>,
  ): Promise<boolean> {
    const sentAtMs = this.#clock.monotonicMs();
    const due = [...this.#leased.values()].filter((slice) => slice.isDue(sentAtMs));
    // Records of an outage that outlasted all leases are still looked up.
    if (due.length === 0 && (this.#leased.size > 0 || this.#unrecorded.size === 0)) return false;
    const looked = [...this.#unrecorded].slice(0, maxLookups);
    const renewals = due.map((slice) => [slice, slice.renewal(sentAtMs)] as const);
    const found = await ask(
      due.map((slice) => slice.leaseId),
      looked.map((held) => held.requestId),
    );
    const states = new Map(found.leases.map((state) => [state.leaseId, state]));
    for (const [slice, renewed] of renewals) {
      const state = states.get(slice.leaseId);
      if (state) renewed(state);
      // Closed by another replica's sweep while this one had no database: it holds nothing any more.
      else this.#remove(slice);
    }
    for (const held of looked) {
      this.#unrecorded.delete(held);
      if (held.isCoveredBy(found.recorded.get(held.requestId) ?? [])) {
        for (const slice of held.slices) slice.drop(held.rest);
        // Keeps nothing of the request alive: see proto/slot-list.ts.
        held.overdue = undefined;
      }
      // To the end of the queue, so that one whose record never comes does not delay the others.
      else if (held.overdue || this.#isLeased(held)) this.#unrecorded.add(held);
    }
    return true;
  }

  /** Returns parts of slices to the database. The number of leases that were closed. */
  async giveBack(
    parts: readonly Part[],
    ask: (items: readonly GiveBack[]) => Promise<readonly GivenBack[]>,
  ): Promise<number> {
    const known = parts.flatMap(([{ leaseId }, amount]) => {
      const slice = this.#leased.get(leaseId);
      return slice ? [{ slice, amount }] : [];
    });
    const slices = known.map(({ slice }) => slice);
    return await moving(slices, async () => {
      // Before the database is asked: a request that comes in the meantime must not be promised it.
      for (const { slice, amount } of known) slice.take(amount);
      const items = known.map(({ slice, amount }): GiveBack => {
        const { leaseId, budget, hasHolds } = slice;
        return { leaseId, budgetId: budget.budgetId, amount, mayClose: !hasHolds };
      });
      const given = new Map((await ask(items)).map((back) => [back.leaseId, back]));
      for (const { slice, amount } of known) {
        const back = given.get(slice.leaseId);
        if (back && !back.isClosed) slice.add(amount - back.given);
        else this.#remove(slice);
      }
      return [...given.values()].filter((back) => back.isClosed).length;
    });
  }

  /** Nothing more is admitted from these slices. */
  retire(isMeant: (slice: Slice) => boolean): void {
    for (const slice of this.#leased.values()) if (isMeant(slice)) this.#retire(slice);
  }

  hasLate(account: AccountId, scopes: readonly BudgetScope[], nowMs: number): boolean {
    const current = this.#current.get(account);
    return scopes.some(({ budgetId }) => current?.get(budgetId)?.isLate(nowMs) === true);
  }

  retireLate(account: AccountId, scopes: readonly BudgetScope[], nowMs: number): void {
    for (const { budgetId } of scopes) {
      const slice = this.#current.get(account)?.get(budgetId);
      if (slice?.isLate(nowMs)) this.#retire(slice);
    }
  }

  /**
   * Retires slices of great age, and removes those whose last records never came: their leases expire, and the sweep decides.
   * Returns the removed ones with the number of missing records.
   */
  forgetOld(nowMs: number): readonly { readonly slice: Slice; readonly missing: number }[] {
    for (const slice of this.#leased.values()) if (!slice.isRetired && slice.isOld(nowMs)) this.#retire(slice);
    const forgotten = [...this.#leased.values()].filter((slice) => slice.isForgotten(nowMs));
    for (const slice of forgotten) this.#remove(slice);
    return forgotten.map((slice) => ({ slice, missing: slice.unrecordedCount }));
  }

  /**
   * Reports requests that ended before `endedMs` without a durable record, each once, also where an outage lasted longer than their slices
   * are remembered.
   */
  reportOverdue(endedMs: number): void {
    this.#report((held) => held.endedAtMs <= endedMs);
  }

  /**
   * Reports complete replies without a durable record, when this process stops. What a client had received that left would limit the
   * bill, and its record has had no time to arrive.
   */
  reportWhole(): void {
    this.#report(({ isWhole }) => isWhole);
  }

  #report(isMeant: (held: HeldMoney) => boolean): void {
    for (const held of this.#unrecorded) {
      if (!isMeant(held)) continue;
      held.overdue?.();
      held.overdue = undefined;
      if (!this.#isLeased(held)) this.#unrecorded.delete(held);
    }
  }

  #isLeased({ slices }: HeldMoney): boolean {
    return slices.some(({ leaseId }) => this.#leased.has(leaseId));
  }

  #retire(slice: LeasedSlice): void {
    slice.isRetired = true;
    const current = this.#current.get(slice.account);
    if (current?.get(slice.budget.budgetId) === slice) current.delete(slice.budget.budgetId);
    this.#sets.delete(slice.account);
    if (current?.size === 0) this.#current.delete(slice.account);
  }

  #remove(slice: LeasedSlice): void {
    this.#retire(slice);
    slice.isRemoved = true;
    this.#leased.delete(slice.leaseId);
  }
}

async function moving<T>(slices: readonly LeasedSlice[], work: () => Promise<T>): Promise<T> {
  for (const slice of slices) slice.moves += 1;
  try {
    return await work();
  } finally {
    for (const slice of slices) {
      slice.moves -= 1;
      slice.moved += 1;
    }
  }
}

/** `slices` has at least one. */
function minFree(slices: readonly LeasedSlice[]): bigint {
  let min = (slices[0] as LeasedSlice).free;
  for (const { free } of slices) if (free < min) min = free;
  return min;
}
