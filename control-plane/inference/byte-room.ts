// How many bytes this process lets requests hold at a time: bodies that came, requests that wait. Adding and taking off, no
// queue: whoever finds no room is told so. INVARIANT: what one
// request took is given back once, as one sum.

/** What is smaller is counted over all alone: its number is bounded by rate limits. */
export const smallBytes = 64 * 1024;
/** Of the room, for one account. */
const mostShare = 0.5;
/** For all who come without a key together: nothing bounds how many they are, and what they send is small. */
const mostBytesOfNobody = 4 * 1024 * 1024;

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
    if (!this.mayTake(account, bytes, before)) return false;
    this.add(account, bytes, before);
    return true;
  }

  /** What `take` would answer now; nothing is taken. */
  mayTake(account: string, bytes: number, before = 0): boolean {
    if (this.#held + bytes > this.mostBytes && this.#held > before) return this.#full();
    if (before + bytes < smallBytes) return true;
    const others = (this.#ofAccounts.get(account) ?? 0) - (before < smallBytes ? 0 : before);
    return others > 0 && others + before + bytes > this.#mostOf(account) ? this.#full() : true;
  }

  /** Takes without asking whether there is room. */
  add(account: string, bytes: number, before = 0): void {
    this.#held += bytes;
    const sum = before + bytes;
    if (sum < smallBytes) return;
    this.#ofAccounts.set(account, (this.#ofAccounts.get(account) ?? 0) + (before < smallBytes ? sum : bytes));
  }

  /** All that one request took. */
  give(account: string, bytes: number): void {
    this.#held -= bytes;
    if (bytes < smallBytes) return;
    const own = (this.#ofAccounts.get(account) ?? 0) - bytes;
    if (own > 0) this.#ofAccounts.set(account, own);
    else this.#ofAccounts.delete(account);
  }

  #mostOf(account: string): number {
    const share = this.mostBytes * mostShare;
    return account === "" ? Math.min(share, mostBytesOfNobody) : share;
  }

  #full(): false {
    this.#refused += 1;
    return false;
  }
}
