// Remembers values by account and request shape, for a limited time after the last change and up to a maximum number of shapes.
import { digestStart } from "./request-shape.ts";

export interface ShapeMemoryOptions {
  /** Monotonic ms. */
  readonly clock: () => number;
  readonly rememberedMs: number;
  /** Above it, the account with the most shapes loses the one that was changed longest ago. */
  readonly maxShapes: number;
}

interface Entry<Value> {
  readonly value: Value;
  readonly changedMs: number;
}

/** Entries of one account by digest, the oldest change first. */
type Entries<Value> = Map<string, Entry<Value>>;

export class ShapeMemory<Value> {
  readonly #options: ShapeMemoryOptions;
  /** By account, the oldest change first. No account is kept without entries. */
  readonly #accounts = new Map<string, Entries<Value>>();
  #size = 0;
  #changedMs = Number.NEGATIVE_INFINITY;

  constructor(options: ShapeMemoryOptions) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    if (this.#size > 0 && this.#changedMs < this.#sinceMs()) {
      this.#accounts.clear();
      this.#size = 0;
    }
    return this.#size === 0;
  }

  /** False when this body of the account is certainly not remembered. Does not read the body: call it before `shapeOf`. */
  mayKnow(account: string, body: Buffer): boolean {
    const entries = this.#entriesOf(account);
    if (!entries) return false;
    const start = digestStart(body);
    return start === undefined || entries.keys().some((digest) => digest.startsWith(start));
  }

  get(account: string, digest: string): Value | undefined {
    return this.#entriesOf(account)?.get(digest)?.value;
  }

  set(account: string, digest: string, value: Value): void {
    const entries = this.#entriesOf(account) ?? new Map<string, Entry<Value>>();
    this.#changedMs = this.#options.clock();
    if (!entries.delete(digest)) this.#size += 1;
    entries.set(digest, { value, changedMs: this.#changedMs });
    this.#accounts.delete(account);
    this.#accounts.set(account, entries);
    if (this.#size <= this.#options.maxShapes) return;
    for (const [each, itsEntries] of this.#accounts) this.#forgetOld(each, itsEntries);
    if (this.#size > this.#options.maxShapes) this.#dropOne();
  }

  delete(account: string, digest: string): void {
    const entries = this.#accounts.get(account);
    if (entries) this.#drop(account, entries, digest);
  }

  #sinceMs(): number {
    return this.#options.clock() - this.#options.rememberedMs;
  }

  #entriesOf(account: string): Entries<Value> | undefined {
    const entries = this.#accounts.get(account);
    if (entries) this.#forgetOld(account, entries);
    return entries && entries.size > 0 ? entries : undefined;
  }

  #forgetOld(account: string, entries: Entries<Value>): void {
    const since = this.#sinceMs();
    for (const [digest, { changedMs }] of entries) {
      if (changedMs >= since) return;
      this.#drop(account, entries, digest);
    }
  }

  /** Takes the oldest entry of the account with the most entries, so that no account pushes out those of the others. */
  #dropOne(): void {
    let largest: readonly [string, Entries<Value>] | undefined;
    for (const each of this.#accounts) if (each[1].size > (largest?.[1].size ?? 0)) largest = each;
    const [oldest] = largest?.[1].keys() ?? [];
    if (largest && oldest !== undefined) this.#drop(...largest, oldest);
  }

  #drop(account: string, entries: Entries<Value>, digest: string): void {
    if (!entries.delete(digest)) return;
    this.#size -= 1;
    if (entries.size === 0) this.#accounts.delete(account);
  }
}
