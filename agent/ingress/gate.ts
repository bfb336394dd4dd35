// Admission to one engine: never more sequences than its batch holds, a bounded wait, fairness between accounts.
// Pure but for the injected clock. A waiter too wide for what is free is not overtaken: it would starve behind narrow ones.
import { FairQueue, type Queued } from "./fair-queue.ts";

export interface Waiter extends Queued {
  /** Sequences; one wider than the whole batch runs alone. */
  readonly permits: number;
  /** Where there is no place at once it is refused as busy. */
  readonly isHasty?: boolean;
  admitted(): void;
  /** It has left the queue. `busy`: the queue was full or the wait too long. */
  refused(why: "busy" | "draining"): void;
}

export interface GateOptions {
  readonly permits: number;
  /** Monotonic ms. */
  readonly clock: () => number;
  readonly maxWaitMs: number;
  /** Most waiters; default 4 times the permits, at least `leastQueue`. */
  readonly queueLimit?: number;
}

/** An account may have so many requests at once of a model, unless it was given more: one instance turns none of them away. */
export const leastQueue = 200;

interface Turn {
  readonly permits: number;
  readonly sinceMs: number;
}

export class Gate {
  readonly #clock: () => number;
  readonly #maxWaitMs: number;
  readonly #queueLimit: number | undefined;
  readonly #queue = new FairQueue<Waiter>();
  readonly #turns = new Map<Waiter, Turn>();
  readonly #waitingSince = new Map<Waiter, number>();
  #capacity: number;
  #used = 0;
  #waitingPermits = 0;
  /** Its turn has come, but it needs more permits than are free. */
  #nextInLine: Waiter | undefined;
  #serviceMs = 0;

  constructor(options: GateOptions) {
    this.#clock = options.clock;
    this.#maxWaitMs = options.maxWaitMs;
    this.#queueLimit = options.queueLimit;
    this.#capacity = Math.max(1, options.permits);
  }

  /** Requests running and waiting; permits in use. */
  get inFlight(): number {
    return this.#turns.size;
  }
  get waiting(): number {
    return this.#queue.size;
  }
  get used(): number {
    return this.#used;
  }

  /** Calls `admitted` or `refused`, now or later. */
  enter(waiter: Waiter): void {
    if (this.#queue.size === 0 && this.#fits(waiter)) {
      this.#admit(waiter);
      return;
    }
    const isFull = this.#queue.size >= (this.#queueLimit ?? Math.max(leastQueue, 4 * this.#capacity));
    if (waiter.isHasty || (isFull && !this.#makeRoomFor(waiter))) {
      waiter.refused("busy");
      return;
    }
    this.#queue.push(waiter);
    this.#waitingSince.set(waiter, this.#clock());
    this.#waitingPermits += waiter.permits;
    this.#pump();
  }

  /** The waiter gave up: no callback comes. No-op when it is not waiting. */
  leave(waiter: Waiter): void {
    if (this.#take(waiter)) this.#pump();
  }

  /** `actualCost` in virtual tokens corrects what the account was charged at admission. No-op when it holds nothing. */
  release(waiter: Waiter, actualCost: number): void {
    const turn = this.#turns.get(waiter);
    if (!turn) return;
    this.#turns.delete(waiter);
    this.#used -= turn.permits;
    this.#queue.ended(waiter, actualCost);
    const took = this.#clock() - turn.sinceMs;
    this.#serviceMs = this.#serviceMs === 0 ? took : this.#serviceMs * 0.9 + took * 0.1;
    this.#pump();
  }

  resize(permits: number): void {
    this.#capacity = Math.max(1, permits);
    this.#pump();
  }

  /** Refuses those who have waited too long. Call it now and then. */
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

  /** Refuses every waiter with `draining`; what runs goes on. */
  drain(): void {
    for (const waiter of [...this.#queue]) {
      this.#take(waiter);
      waiter.refused("draining");
    }
  }

  /** When a place may be free for one more, from what requests took lately. 1..60. */
  retryAfterSeconds(): number {
    const rounds = (this.#waitingPermits + 1) / this.#capacity;
    return Math.min(60, Math.max(1, Math.ceil((rounds * this.#serviceMs) / 1000)));
  }

  /** A queue full of one account's requests must not shut out the others. */
  #makeRoomFor(waiter: Waiter): boolean {
    const last = this.#queue.toMakeRoomFor(waiter.account);
    if (!last || last === this.#nextInLine) return false;
    this.#take(last);
    last.refused("busy");
    return true;
  }

  #need(waiter: Waiter): number {
    return Math.min(Math.max(1, waiter.permits), this.#capacity);
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
    this.#turns.set(waiter, { permits, sinceMs: this.#clock() });
    this.#queue.started(waiter);
    waiter.admitted();
  }

  #pump(): void {
    for (;;) {
      if (this.#queue.size === 0) return;
      this.#nextInLine ??= this.#queue.next();
      const next = this.#nextInLine;
      if (!next || !this.#fits(next)) return;
      this.#take(next);
      this.#admit(next);
    }
  }
}
