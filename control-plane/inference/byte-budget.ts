// Memory budget for the bytes that requests of this process hold: received bodies and waiting requests. A request beyond it is
// refused, not queued. INVARIANT: the bytes one request took are given back once, as one sum.

/** Smaller bodies count in the total alone, not per account: rate limits bound their number. */
export const smallBytes = 64 * 1024;
/** Maximum share of the budget for one account. */
const maxShare = 0.5;
/** Maximum for all callers without a key together: nothing bounds their number, and their requests are small. */
const maxAnonymousBytes = 4 * 1024 * 1024;

export class ByteBudget {
  readonly maxBytes: number;
  #held = 0;
  #refused = 0;
  readonly #ofAccounts = new Map<string, number>();

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get heldBytes(): number {
    return this.#held;
  }

  /** Refusals since start. */
  get refusals(): number {
    return this.#refused;
  }

  /** Returns false when the budget is used up. A single request always fits, whatever its size. `before`: bytes it already holds. */
  take(account: string, bytes: number, before = 0): boolean {
    if (!this.mayTake(account, bytes, before)) return false;
    this.add(account, bytes, before);
    return true;
  }

  /** Returns the result that `take` would have, and takes nothing. */
  mayTake(account: string, bytes: number, before = 0): boolean {
    if (this.#held + bytes > this.maxBytes && this.#held > before) return this.#full();
    if (before + bytes < smallBytes) return true;
    const others = (this.#ofAccounts.get(account) ?? 0) - (before < smallBytes ? 0 : before);
    return others > 0 && others + before + bytes > this.#maxFor(account) ? this.#full() : true;
  }

  /** Takes without checking the budget. */
  add(account: string, bytes: number, before = 0): void {
    this.#held += bytes;
    const sum = before + bytes;
    if (sum < smallBytes) return;
    this.#ofAccounts.set(account, (this.#ofAccounts.get(account) ?? 0) + (before < smallBytes ? sum : bytes));
  }

  /** Gives back all bytes that one request took. */
  give(account: string, bytes: number): void {
    this.#held -= bytes;
    if (bytes < smallBytes) return;
    const own = (this.#ofAccounts.get(account) ?? 0) - bytes;
    if (own > 0) this.#ofAccounts.set(account, own);
    else this.#ofAccounts.delete(account);
  }

  #maxFor(account: string): number {
    const share = this.maxBytes * maxShare;
    return account === "" ? Math.min(share, maxAnonymousBytes) : share;
  }

  #full(): false {
    this.#refused += 1;
    return false;
  }
}

/** Bytes that work of an account without a connection holds, until it is over. */
export class HeldBytes {
  readonly #budget: ByteBudget;
  readonly #account: string;
  #bytes = 0;

  constructor(budget: ByteBudget, account: string) {
    this.#budget = budget;
    this.#account = account;
  }

  /** Returns false when there is no capacity for more bytes. Small ones always fit. */
  hold(bytes: number): boolean {
    const fits = this.#bytes + bytes < smallBytes || this.#budget.mayTake(this.#account, bytes, this.#bytes);
    if (!fits) return false;
    this.#budget.add(this.#account, bytes, this.#bytes);
    this.#bytes += bytes;
    return true;
  }

  /** May be called again. */
  letGo(): void {
    if (this.#bytes > 0) this.#budget.give(this.#account, this.#bytes);
    this.#bytes = 0;
  }
}
