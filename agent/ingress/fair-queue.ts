// Who is next when the engine is full: the account that was served the fewest virtual tokens, first come first within it.
// Pure. A newly active account starts level with the least served active one, so nobody saves up turns by being away.

export interface Queued {
  readonly account: string;
  /** Virtual tokens this one is expected to cost. */
  readonly cost: number;
}

interface Share<W> {
  served: number;
  inFlight: number;
  readonly waiting: W[];
  /** Arrival number of each waiter, in step with `waiting`. */
  readonly arrivals: number[];
}

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
    const share = this.#activate(waiter.account);
    share.waiting.push(waiter);
    share.arrivals.push(this.#arrivals++);
    this.#size += 1;
  }

  /** The waiter whose turn it is; it stays in the queue. */
  next(): W | undefined {
    let best: Share<W> | undefined;
    for (const share of this.#shares.values()) {
      if (share.waiting.length === 0) continue;
      if (!best || share.served < best.served || (share.served === best.served && first(share) < first(best)))
        best = share;
    }
    return best?.waiting[0];
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
    share.served += waiter.cost;
  }

  ended(waiter: W, actualCost: number): void {
    const share = this.#shares.get(waiter.account);
    if (!share) return;
    share.inFlight -= 1;
    share.served += actualCost - waiter.cost;
    this.#settleDown(waiter.account, share);
  }

  *[Symbol.iterator](): IterableIterator<W> {
    for (const share of this.#shares.values()) yield* share.waiting;
  }

  #activate(account: string): Share<W> {
    let share = this.#shares.get(account);
    if (share && isActive(share)) return share;
    const floor = this.#floor();
    if (!share) {
      share = { served: floor, inFlight: 0, waiting: [], arrivals: [] };
      this.#shares.set(account, share);
    }
    share.served = Math.max(share.served, floor);
    this.#active += 1;
    return share;
  }

  /** What an idle account was served matters only while it is ahead of the others; a queue without anyone forgets all. */
  #settleDown(account: string, share: Share<W>): void {
    if (isActive(share)) return;
    this.#active -= 1;
    if (this.#active === 0) this.#shares.clear();
    else if (share.served <= this.#floor()) this.#shares.delete(account);
  }

  #floor(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const share of this.#shares.values()) if (isActive(share) && share.served < least) least = share.served;
    return least === Number.POSITIVE_INFINITY ? 0 : least;
  }
}

const isActive = <W>(share: Share<W>) => share.inFlight > 0 || share.waiting.length > 0;
const first = <W>(share: Share<W>) => share.arrivals[0] as number;
