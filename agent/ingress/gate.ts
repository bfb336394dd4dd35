// Admission to one engine: at most as many sequences as its batch holds, a bounded wait, fairness between accounts.
// Pure except for the injected clock. A waiter that needs more permits than are free is not overtaken: otherwise it would
// starve behind narrow ones.
import { FairQueue, type Queued } from "./fair-queue.ts";

interface Turn {
  readonly permits: number;
  readonly sinceMs: number;
}

export interface Waiter extends Queued {
  /** Sequences, or seconds of audio; one wider than the whole batch runs alone. */
  readonly permits: number;
  /** Refused as busy when it cannot be admitted at once. */
  readonly isHasty?: boolean;
  /** Set while it holds permits. Changed by the gate only. */
  turn?: Turn | undefined;
  admitted(): void;
  /** The waiter has left the queue. `busy`: the queue was full or the wait too long. */
  refused(why: "busy" | "draining"): void;
}

interface GateOptions {
  readonly permits: number;
  /** Maximum permits of one waiter; default: all. */
  readonly maxPermitsEach?: number;
  /** Maximum permits of one account above its first request; default: all. */
  readonly maxPermitsOfAccount?: number;
  readonly clock: () => number;
  readonly maxWaitMs: number;
  /** Maximum number of waiters; default 4 times the permits, at least `minQueueLimit`. */
  readonly queueLimit?: number;
}

/** Default number of concurrent requests of an account to a model: one instance must be able to queue all of them. */
const minQueueLimit = 200;

export class Gate {
  readonly #clock: () => number;
  readonly #maxWaitMs: number;
  readonly #queueLimit: number | undefined;
  readonly #maxEach: number;
  readonly #maxOfAccount: number;
  readonly #usedBy = new Map<string, number>();
  readonly #queue = new FairQueue<Waiter>();
  readonly #waitingSince = new Map<Waiter, number>();
  #capacity: number;
  #inFlight = 0;
  #used = 0;
  #waitingPermits = 0;
  /** First in line, but needs more permits than are free. */
  #nextInLine: Waiter | undefined;
  #serviceMs = 0;

  constructor(options: GateOptions) {
    this.#clock = options.clock;
    this.#maxWaitMs = options.maxWaitMs;
    this.#queueLimit = options.queueLimit;
    this.#maxEach = options.maxPermitsEach ?? Number.POSITIVE_INFINITY;
    this.#maxOfAccount = options.maxPermitsOfAccount ?? Number.POSITIVE_INFINITY;
    this.#capacity = Math.max(1, options.permits);
  }

  /** Requests running and waiting; permits in use. */
  get inFlight(): number {
    return this.#inFlight;
  }
  get waiting(): number {
    return this.#queue.size;
  }
  get used(): number {
    return this.#used;
  }

  /** Calls `admitted` or `refused`, now or later. */
  enter(waiter: Waiter): void {
    if (this.#queue.size === 0 && this.#fits(waiter) && this.#isWithinShare(waiter)) {
      this.#admit(waiter);
      return;
    }
    const isFull = this.#queue.size >= (this.#queueLimit ?? Math.max(minQueueLimit, 4 * this.#capacity));
    if (waiter.isHasty || (isFull && !this.#evictFor(waiter))) {
      waiter.refused("busy");
      return;
    }
    this.#queue.push(waiter);
    this.#waitingSince.set(waiter, this.#clock());
    this.#waitingPermits += waiter.permits;
    this.#pump();
  }

  leave(waiter: Waiter): void {
    if (this.#take(waiter)) this.#pump();
  }

  /** `actualCost` (virtual tokens) replaces the cost charged to the account at admission. No-op when it holds no permits. */
  release(waiter: Waiter, actualCost: number): void {
    const { turn } = waiter;
    if (!turn) return;
    waiter.turn = undefined;
    this.#inFlight -= 1;
    this.#used -= turn.permits;
    const left = (this.#usedBy.get(waiter.account) ?? 0) - turn.permits;
    if (left > 0) this.#usedBy.set(waiter.account, left);
    else this.#usedBy.delete(waiter.account);
    this.#queue.ended(waiter, actualCost);
    const took = this.#clock() - turn.sinceMs;
    this.#serviceMs = this.#serviceMs === 0 ? took : this.#serviceMs * 0.9 + took * 0.1;
    this.#pump();
  }

  resize(permits: number): void {
    this.#capacity = Math.max(1, permits);
    this.#pump();
  }

  expire(): void {
    const before = this.#clock() - this.#maxWaitMs;
    // Oldest first: a Map keeps the order of insertion.
    for (const [waiter, since] of this.#waitingSince) {
      if (since > before) break;
      this.#take(waiter);
      waiter.refused("busy");
    }
    this.#pump();
  }

  drain(): void {
    for (const waiter of [...this.#queue]) {
      this.#take(waiter);
      waiter.refused("draining");
    }
  }

  /** Estimated seconds until one more request can be admitted, from recent service times. 1..60. */
  retryAfterSeconds(): number {
    const rounds = (this.#waitingPermits + 1) / this.#capacity;
    return Math.min(60, Math.max(1, Math.ceil((rounds * this.#serviceMs) / 1000)));
  }

  /** A queue full of one account's requests must not shut out the others. */
  #evictFor(waiter: Waiter): boolean {
    const last = this.#queue.toEvictFor(waiter.account);
    if (!last || last === this.#nextInLine) return false;
    this.#take(last);
    last.refused("busy");
    return true;
  }

  #need(waiter: Waiter): number {
    return Math.min(Math.max(1, waiter.permits), this.#maxEach, this.#capacity);
  }

  #isWithinShare(waiter: Waiter): boolean {
    const used = this.#usedBy.get(waiter.account) ?? 0;
    return used === 0 || used + this.#need(waiter) <= this.#maxOfAccount;
  }

  #fits(waiter: Waiter): boolean {
    return this.#used + this.#need(waiter) <= this.#capacity;
  }

  #take(waiter: Waiter): boolean {
    if (!this.#queue.remove(waiter)) return false;
    this.#waitingSince.delete(waiter);
    this.#waitingPermits -= waiter.permits;
    if (this.#nextInLine === waiter) this.#nextInLine = undefined;
    return true;
  }

  #admit(waiter: Waiter): void {
    const permits = this.#need(waiter);
    this.#used += permits;
    this.#usedBy.set(waiter.account, (this.#usedBy.get(waiter.account) ?? 0) + permits);
    waiter.turn = { permits, sinceMs: this.#clock() };
    this.#inFlight += 1;
    this.#queue.started(waiter);
    waiter.admitted();
  }

  #pump(): void {
    for (;;) {
      if (this.#queue.size === 0) return;
      this.#nextInLine ??= this.#queue.next((waiter) => this.#isWithinShare(waiter));
      const next = this.#nextInLine;
      if (!next || !this.#fits(next)) return;
      this.#take(next);
      this.#admit(next);
    }
  }
}
