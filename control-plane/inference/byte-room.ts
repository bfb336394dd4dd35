// How many bytes this process lets requests hold at a time: bodies that came, requests that wait. Adding and taking off, no
// queue: whoever finds no room is told so. INVARIANT: what is taken is given back once, by the same account in the same amounts.

/** Smaller ones are counted over all alone: their number is bounded by rate limits. */
const smallBytes = 64 * 1024;
/** Of the room, for one account. */
const mostShare = 0.5;

export class ByteRoom {
  readonly mostBytes: number;
  #held = 0;
  #refused = 0;
  readonly #ofAccounts = new Map<string, number>();

  constructor(mostBytes: number) {
    this.mostBytes = mostBytes;
  }

  get heldBytes(): number {
    return this.#held;
  }

  /** Ever. */
  get refusals(): number {
    return this.#refused;
  }

  /** False: there is no room. One alone always has room, whatever its size. `before`: what the same request holds already. */
  take(account: string, bytes: number, before = 0): boolean {
    const held = this.#held;
    if (held + bytes > this.mostBytes && held > before) return this.#full();
    if (bytes >= smallBytes) {
      const own = this.#ofAccounts.get(account) ?? 0;
      if (own > before && own + bytes > this.mostBytes * mostShare) return this.#full();
      this.#ofAccounts.set(account, own + bytes);
    }
    this.#held = held + bytes;
    return true;
  }

  give(account: string, bytes: number): void {
    this.#held -= bytes;
    if (bytes < smallBytes) return;
    const own = (this.#ofAccounts.get(account) ?? 0) - bytes;
    if (own > 0) this.#ofAccounts.set(account, own);
    else this.#ofAccounts.delete(account);
  }

  #full(): false {
    this.#refused += 1;
    return false;
  }
}
