// Admission to one engine: at most as many sequences as its batch holds, a bounded wait, service tiers, fairness between accounts.
// Pure except for the injected clock. A waiter that needs more permits than are free is overtaken only by better tiers and by accounts
// with nothing running, each at most `maxOvertakes` times: otherwise it would starve behind narrow ones.
import { serviceTiers, tierRank } from "../../proto/service-tier.ts";
import { FairQueue, type Queued, tierOf } from "./fair-queue.ts";

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

/** Admissions of better tiers while one of a worse tier waits. The next one is of the worse tier; batches have no such bound. */
const maxOvertakes = 16;
/** Part of the permits that is kept for accounts with nothing running, and from batches. */
const keptShare = 1 / 8;
/** Below this number of permits none is kept. */
const minToKeep = 8;
/** How long an account, or interactive use, counts as present after its last request. */
const presentMs = 60_000;
const maxAbsent = 1_024;

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
  #nextOvertaken = 0;
  /** By tier: admissions of better tiers since one of it was admitted. Counted while it waits. */
  readonly #overtaken: number[] = serviceTiers.map(() => 0);
  /** Accounts that ran requests within `presentMs` and hold no permits now: when the last one ended. Oldest first. */
  readonly #absent = new Map<string, number>();
  #interactiveAtMs = Number.NEGATIVE_INFINITY;
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
    if (tierOf(waiter) !== tierRank.batch) this.#interactiveAtMs = this.#clock();
    if (this.#queue.size === 0 && this.#isWithinShare(waiter) && this.#fits(waiter)) {
      this.#admit(waiter);
      return;
    }
    this.#noteWaiting(waiter);
    const isFull = this.#queue.size >= (this.#queueLimit ?? Math.max(minQueueLimit, 4 * this.#capacity));
    const mayWait = waiter.isHasty ? this.#queue.size > 0 && !isFull : !isFull || this.#evictFor(waiter);
    if (!mayWait) {
      waiter.refused("busy");
      return;
    }
    this.#queue.push(waiter);
    this.#waitingSince.set(waiter, this.#clock());
    this.#waitingPermits += waiter.permits;
    this.#pump();
    if (waiter.isHasty && this.#take(waiter)) waiter.refused("busy");
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
    else {
      this.#usedBy.delete(waiter.account);
      this.#absent.set(waiter.account, this.#clock());
      if (this.#absent.size > maxAbsent) this.#absent.delete(this.#absent.keys().next().value as string);
    }
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

  #noteWaiting(waiter: Waiter): void {
    if (this.#absent.delete(waiter.account)) this.#absent.set(waiter.account, this.#clock());
    const next = this.#nextInLine;
    if (!next || tierOf(waiter) >= tierOf(next)) return;
    if ((this.#overtaken[tierOf(next)] as number) < maxOvertakes) this.#nextInLine = undefined;
  }

  /** A queue full of one account's requests must not shut out the others. */
  #evictFor(waiter: Waiter): boolean {
    const last = this.#queue.toEvictFor(waiter);
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

  /** Free permits that this waiter must leave to others. */
  #keptFrom(waiter: Waiter): number {
    if (this.#capacity < minToKeep) return 0;
    const most = Math.floor(this.#capacity * keptShare);
    const presentSince = this.#clock() - presentMs;
    if (tierOf(waiter) === tierRank.batch && this.#interactiveAtMs > presentSince) return most;
    if (!this.#usedBy.has(waiter.account)) return 0;
    for (const [account, since] of this.#absent) {
      if (since > presentSince) break;
      this.#absent.delete(account);
    }
    return Math.min(this.#absent.size, most);
  }

  #fits(waiter: Waiter): boolean {
    // One wider than what may be used beside the kept permits runs when nothing else does.
    return this.#used === 0 || this.#used + this.#need(waiter) <= this.#capacity - this.#keptFrom(waiter);
  }

  #take(waiter: Waiter): boolean {
    if (!this.#queue.remove(waiter)) return false;
    this.#waitingSince.delete(waiter);
    this.#waitingPermits -= waiter.permits;
    if (this.#nextInLine === waiter) {
      this.#nextInLine = undefined;
      this.#nextOvertaken = 0;
    }
    return true;
  }

  #admit(waiter: Waiter): void {
    const permits = this.#need(waiter);
    this.#used += permits;
    this.#usedBy.set(waiter.account, (this.#usedBy.get(waiter.account) ?? 0) + permits);
    waiter.turn = { permits, sinceMs: this.#clock() };
    this.#inFlight += 1;
    this.#absent.delete(waiter.account);
    this.#countOvertaken(tierOf(waiter));
    this.#queue.started(waiter);
    waiter.admitted();
  }

  #countOvertaken(tier: number): void {
    this.#overtaken[tier] = 0;
    if (this.#queue.size === 0) return;
    for (let worse = tier + 1; worse < tierRank.batch; worse++)
      this.#overtaken[worse] = this.#queue.sizeOf(worse) > 0 ? (this.#overtaken[worse] as number) + 1 : 0;
  }

  /** Tier to begin with: a worse one than the best after it was overtaken often enough. */
  #firstTier(): number {
    for (let tier = tierRank.batch - 1; tier > 0; tier--)
      if ((this.#overtaken[tier] as number) >= maxOvertakes && this.#queue.sizeOf(tier) > 0) return tier;
    return 0;
  }

  /** Returns the next waiter to admit, which stays in the queue; undefined: none fits now. */
  #next(): Waiter | undefined {
    const mayRun = (waiter: Waiter) => this.#isWithinShare(waiter);
    // A wider batch lets it take more than when it became the first.
    if (this.#nextInLine && !mayRun(this.#nextInLine)) {
      this.#nextInLine = undefined;
      this.#nextOvertaken = 0;
    }
    this.#nextInLine ??= this.#queue.next(mayRun, this.#firstTier());
    const next = this.#nextInLine;
    if (!next || this.#fits(next)) return next;
    // Permits that it may not use are for accounts with nothing running.
    const isHeldBack = this.#used + this.#need(next) <= this.#capacity;
    if (!isHeldBack || this.#nextOvertaken >= maxOvertakes) return undefined;
    const other = this.#queue.next((waiter) => !this.#usedBy.has(waiter.account) && this.#fits(waiter));
    if (other) this.#nextOvertaken += 1;
    return other;
  }

  #pump(): void {
    while (this.#queue.size > 0) {
      const next = this.#next();
      if (!next) return;
      this.#take(next);
      this.#admit(next);
    }
  }
}
