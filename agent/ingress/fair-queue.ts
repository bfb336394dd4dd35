// Chooses the next request when the engine is full: the account that was served the fewest virtual tokens since the queue was
// last empty, first come first served within it. Pure. Of the work done while the queue was empty only requests in flight
// count, so an account gains no credit from idle times. An account that arrives later starts at the finished work of the least
// served account: it can catch up by at most the work in flight at that moment.

export interface Queued {
  readonly account: string;
  /** Expected cost in virtual tokens. */
  readonly cost: number;
}

interface Share<W> {
  /** Virtual tokens started since the queue was last empty, and those in flight at that moment. */
  served: number;
  inFlight: number;
  inFlightCost: number;
  readonly waiting: W[];
  /** Arrival number of each waiter, in step with `waiting`. */
  readonly arrivals: number[];
}

/** Idle accounts are kept while they were served more than active ones, up to this many above the number of active accounts. */
const idleKept = 64;

export class FairQueue<W extends Queued> {
  readonly #shares = new Map<string, Share<W>>();
  #size = 0;
  #arrivals = 0;
  #active = 0;

  /** Waiters of all accounts. */
  get size(): number {
    return this.#size;
  }

  push(waiter: W): void {
    if (this.#size === 0) this.#beginCounting();
    const share = this.#activate(waiter.account);
    share.waiting.push(waiter);
    share.arrivals.push(this.#arrivals++);
    this.#size += 1;
  }

  /** Returns the next waiter, which stays in the queue. Accounts whose first waiter `mayRun` refuses are skipped. */
  next(mayRun: (waiter: W) => boolean = () => true): W | undefined {
    let best: Share<W> | undefined;
    for (const share of this.#shares.values()) {
      const [waiter] = share.waiting;
      if (!waiter || !mayRun(waiter)) continue;
      if (!best || share.served < best.served || (share.served === best.served && first(share) < first(best)))
        best = share;
    }
    return best?.waiting[0];
  }

  /** Returns the waiter to evict for one of `account` when the queue is full: the last of the account with the most waiters. */
  toEvictFor(account: string): W | undefined {
    const own = this.#shares.get(account)?.waiting.length ?? 0;
    let longest: Share<W> | undefined;
    for (const share of this.#shares.values())
      if (share.waiting.length > (longest?.waiting.length ?? own + 1)) longest = share;
    return longest?.waiting.at(-1);
  }

  /** False when it does not wait here. */
  remove(waiter: W): boolean {
    const share = this.#shares.get(waiter.account);
    const at = share ? share.waiting.indexOf(waiter) : -1;
    if (!share || at < 0) return false;
    share.waiting.splice(at, 1);
    share.arrivals.splice(at, 1);
    this.#size -= 1;
    this.#settleDown(waiter.account, share);
    return true;
  }

  /** The account is charged what the request is expected to cost; `ended` corrects it. */
  started(waiter: W): void {
    const share = this.#activate(waiter.account);
    share.inFlight += 1;
    share.inFlightCost += waiter.cost;
    share.served += waiter.cost;
  }

  ended(waiter: W, actualCost: number): void {
    const share = this.#shares.get(waiter.account);
    if (!share) return;
    share.inFlight -= 1;
    share.inFlightCost -= waiter.cost;
    share.served += actualCost - waiter.cost;
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
const first = <W>(share: Share<W>) => share.arrivals[0] as number;
