// Chooses the next request when the engine is full: of the best service tier that waits, the account that was served the fewest
// virtual tokens for its weight since the queue was last empty, first come first served within it. Pure. Of the work done while the queue was empty only requests in flight
// count, so an account gains no credit from idle times. An account that arrives later starts at the finished work of the least
// served account: it can catch up by at most the work in flight at that moment.

import { serviceTiers, tierRank } from "../../proto/service-tier.ts";

export interface Queued {
  readonly account: string;
  /** Expected cost in virtual tokens. */
  readonly cost: number;
  /** Share of the engine relative to other accounts, at least 1; absent: 1. */
  readonly weight?: number;
  /** A value of `tierRank`: lower ones go first. Absent: that of the default tier. */
  readonly tier?: number;
}

export const tierOf = ({ tier }: Queued): number => tier ?? tierRank.default;

const weightOf = ({ weight }: Queued): number => weight ?? 1;

interface Share<W> {
  /** Virtual tokens by weight started since the queue was last empty, and those in flight at that moment. */
  served: number;
  inFlight: number;
  inFlightCost: number;
  /** By tier, then by arrival. */
  readonly waiting: W[];
  /** Arrival number of each waiter, in step with `waiting`. */
  readonly arrivals: number[];
}

/** Idle accounts are kept while they were served more than active ones, up to this many above the number of active accounts. */
const idleKept = 64;

/** Part of a full queue that each tier keeps, if it has waiters. */
const keptPart = 1 / 8;

export class FairQueue<W extends Queued> {
  readonly #shares = new Map<string, Share<W>>();
  readonly #sizes: number[] = serviceTiers.map(() => 0);
  #size = 0;
  #arrivals = 0;
  #active = 0;

  /** Waiters of all accounts. */
  get size(): number {
    return this.#size;
  }

  /** Waiters of one tier. */
  sizeOf(tier: number): number {
    return this.#sizes[tier] as number;
  }

  push(waiter: W): void {
    if (this.#size === 0) this.#beginCounting();
    const share = this.#activate(waiter.account);
    const { waiting, arrivals } = share;
    const tier = tierOf(waiter);
    let at = waiting.length;
    while (at > 0 && tierOf(waiting[at - 1] as W) > tier) at -= 1;
    if (at === waiting.length) {
      waiting.push(waiter);
      arrivals.push(this.#arrivals++);
    } else {
      waiting.splice(at, 0, waiter);
      arrivals.splice(at, 0, this.#arrivals++);
    }
    this.#sizes[tier] = this.sizeOf(tier) + 1;
    this.#size += 1;
  }

  /**
   * Returns the next waiter of `fromTier` or a later tier, which stays in the queue. Accounts whose first such waiter `mayRun`
   * refuses are skipped.
   */
  next(mayRun: (waiter: W) => boolean = () => true, fromTier = 0): W | undefined {
    let best: W | undefined;
    let bestShare: Share<W> | undefined;
    let bestArrival = 0;
    for (const share of this.#shares.values()) {
      let at = 0;
      if (fromTier > 0) while (at < share.waiting.length && tierOf(share.waiting[at] as W) < fromTier) at += 1;
      const waiter = share.waiting[at];
      if (!waiter || !mayRun(waiter)) continue;
      const arrival = share.arrivals[at] as number;
      const order =
        best && bestShare
          ? tierOf(waiter) - tierOf(best) || share.served - bestShare.served || arrival - bestArrival
          : -1;
      if (order >= 0) continue;
      best = waiter;
      bestShare = share;
      bestArrival = arrival;
    }
    return best;
  }

  /**
   * Returns the waiter to evict for another when the queue is full. An account with its part of the queue by weight evicts only its
   * own waiters of worse tiers. Others evict the last of the worst tier with more than its minimum part, then of their own tier
   * from an account with at least two more waiters; a tier below its minimum part evicts from every tier above its own part.
   * The account with the most such waiters loses one.
   */
  toEvictFor(waiter: W): W | undefined {
    const tier = tierOf(waiter);
    const own = this.#shares.get(waiter.account)?.waiting ?? [];
    const weight = weightOf(waiter);
    let weights = own.length > 0 ? 0 : weight;
    for (const { waiting } of this.#shares.values()) if (waiting[0]) weights += weightOf(waiting[0]);
    if (own.length * weights >= this.#size * weight) {
      const last = own.at(-1);
      return last && tierOf(last) > tier ? last : undefined;
    }
    const kept = Math.floor(this.#size * keptPart);
    const worse = this.#sizes.findLastIndex((size, at) => at > tier && size > kept);
    if (worse >= 0) return this.#lastOfMost((one) => tierOf(one) === worse, 0);
    const isBelowPart = this.sizeOf(tier) < kept;
    const givesWay = (one: W) =>
      tierOf(one) === tier || (isBelowPart && tierOf(one) < tier && this.sizeOf(tierOf(one)) > kept);
    return this.#lastOfMost(givesWay, (own.length + 1) / weight);
  }

  /** Last waiter that `givesWay`, of the account with the most of them for its weight; undefined unless these are more than `most`. */
  #lastOfMost(givesWay: (waiter: W) => boolean, most: number): W | undefined {
    let count = most;
    let last: W | undefined;
    for (const { waiting } of this.#shares.values()) {
      if (!waiting[0]) continue;
      const weight = weightOf(waiting[0]);
      if (waiting.length / weight <= count) continue;
      const found = waiting.filter(givesWay);
      if (found.length / weight <= count) continue;
      count = found.length / weight;
      last = found.at(-1);
    }
    return last;
  }

  /** False when it does not wait here. */
  remove(waiter: W): boolean {
    const share = this.#shares.get(waiter.account);
    const at = share ? share.waiting.indexOf(waiter) : -1;
    if (!share || at < 0) return false;
    share.waiting.splice(at, 1);
    share.arrivals.splice(at, 1);
    this.#sizes[tierOf(waiter)] = this.sizeOf(tierOf(waiter)) - 1;
    this.#size -= 1;
    this.#settleDown(waiter.account, share);
    return true;
  }

  /** The account is charged what the request is expected to cost; `ended` corrects it. */
  started(waiter: W): void {
    const share = this.#activate(waiter.account);
    const cost = waiter.cost / weightOf(waiter);
    share.inFlight += 1;
    share.inFlightCost += cost;
    share.served += cost;
  }

  ended(waiter: W, actualCost: number): void {
    const share = this.#shares.get(waiter.account);
    if (!share) return;
    const weight = weightOf(waiter);
    share.inFlight -= 1;
    share.inFlightCost -= waiter.cost / weight;
    share.served += (actualCost - waiter.cost) / weight;
    this.#settleDown(waiter.account, share);
  }

  *[Symbol.iterator](): IterableIterator<W> {
    for (const share of this.#shares.values()) yield* share.waiting;
  }

  #beginCounting(): void {
    for (const [account, share] of this.#shares) {
      if (isActive(share)) share.served = share.inFlightCost;
      else this.#shares.delete(account);
    }
  }

  #activate(account: string): Share<W> {
    let share = this.#shares.get(account);
    if (share && isActive(share)) return share;
    const level = this.#level();
    if (!share) {
      share = { served: level, inFlight: 0, inFlightCost: 0, waiting: [], arrivals: [] };
      this.#shares.set(account, share);
    }
    share.served = Math.max(share.served, level);
    this.#active += 1;
    return share;
  }

  /** An idle account is kept only while requests wait and it was served more than a new account would start with. */
  #settleDown(account: string, share: Share<W>): void {
    if (isActive(share)) return;
    this.#active -= 1;
    if (this.#size === 0 || share.served <= this.#level()) this.#shares.delete(account);
    else if (this.#shares.size > 2 * this.#active + idleKept) this.#forgetIdle();
  }

  #forgetIdle(): void {
    const level = this.#level();
    for (const [account, share] of this.#shares)
      if (!isActive(share) && share.served <= level) this.#shares.delete(account);
  }

  /** Virtual tokens at which an account that arrives now starts. */
  #level(): number {
    let min = Number.POSITIVE_INFINITY;
    for (const share of this.#shares.values()) {
      if (isActive(share) && share.served - share.inFlightCost < min) min = share.served - share.inFlightCost;
    }
    return min === Number.POSITIVE_INFINITY ? 0 : min;
  }
}

const isActive = <W>(share: Share<W>) => share.inFlight > 0 || share.waiting.length > 0;
