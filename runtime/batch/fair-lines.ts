// Orders waiting items: first the tenant with the smallest share so far, within it the request with the smallest share, within
// that the first item. Shares are weights on a virtual clock: a returning tenant starts level with the others, so no tenant
// saves up credit and none waits behind the queue of another. Pure.

export interface Entry {
  readonly tenant: string;
  /** Identity of the request that the item belongs to. */
  readonly request: object;
  /** Cost of the item compared with others, e.g. its tokens or seconds. */
  readonly weight: number;
}

/** Tenants without waiting items are remembered while they are ahead of the clock, about this many beyond those that wait. */
const maxIdle = 64;

class Shares<Key> {
  readonly #given = new Map<Key, number>();
  #clock = 0;

  get size(): number {
    return this.#given.size;
  }

  join(key: Key): void {
    this.#given.set(key, Math.max(this.#given.get(key) ?? 0, this.#clock));
  }

  charge(key: Key, weight: number): void {
    const given = this.#given.get(key) ?? this.#clock;
    this.#clock = Math.max(this.#clock, given);
    this.#given.set(key, given + Math.max(1, weight));
  }

  forget(key: Key): void {
    this.#given.delete(key);
  }

  forgetLevel(isWaiting: (key: Key) => boolean): void {
    for (const [key, given] of this.#given) if (given <= this.#clock && !isWaiting(key)) this.#given.delete(key);
  }

  /** Least given first. */
  sorted(keys: Iterable<Key>): Key[] {
    return [...keys].sort((a, b) => this.#of(a) - this.#of(b));
  }

  least(keys: Iterable<Key>): Key | undefined {
    let best: Key | undefined;
    let given = Number.POSITIVE_INFINITY;
    for (const key of keys) {
      const own = this.#of(key);
      if (own >= given) continue;
      best = key;
      given = own;
    }
    return best;
  }

  #of(key: Key): number {
    return this.#given.get(key) ?? this.#clock;
  }
}

interface Tenant<E> {
  readonly shares: Shares<object>;
  readonly lines: Map<object, E[]>;
}

export class FairLines<E extends Entry> {
  readonly #shares = new Shares<string>();
  readonly #tenants = new Map<string, Tenant<E>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(entry: E): void {
    let tenant = this.#tenants.get(entry.tenant);
    if (!tenant) {
      tenant = { shares: new Shares(), lines: new Map() };
      this.#tenants.set(entry.tenant, tenant);
      this.#shares.join(entry.tenant);
    }
    const line = tenant.lines.get(entry.request);
    if (line) line.push(entry);
    else {
      tenant.lines.set(entry.request, [entry]);
      tenant.shares.join(entry.request);
    }
    this.#size += 1;
  }

  /** Takes out an entry that leaves unserved. False when it does not wait here. */
  remove(entry: E): boolean {
    const tenant = this.#tenants.get(entry.tenant);
    const line = tenant?.lines.get(entry.request);
    const at = line?.indexOf(entry) ?? -1;
    if (!tenant || !line || at < 0) return false;
    line.splice(at, 1);
    this.#size -= 1;
    if (line.length === 0) {
      tenant.lines.delete(entry.request);
      tenant.shares.forget(entry.request);
    }
    if (tenant.lines.size === 0) this.#tenants.delete(entry.tenant);
    if (this.#shares.size > 2 * this.#tenants.size + maxIdle)
      this.#shares.forgetLevel((name) => this.#tenants.has(name));
    return true;
  }

  /** Entry whose turn it is; it goes on waiting. */
  next(): E | undefined {
    const tenant = this.#tenants.get(this.#shares.least(this.#tenants.keys()) ?? "");
    const request = tenant?.shares.least(tenant.lines.keys());
    return request && tenant?.lines.get(request)?.[0];
  }

  /** Takes the entry out and charges its tenant and request for it. */
  take(entry: E): void {
    const tenant = this.#tenants.get(entry.tenant);
    this.#shares.charge(entry.tenant, entry.weight);
    tenant?.shares.charge(entry.request, entry.weight);
    this.remove(entry);
  }

  /** All entries, in the order in which they would be served if nothing were charged in between. */
  *inTurn(): IterableIterator<E> {
    for (const name of this.#shares.sorted(this.#tenants.keys())) {
      const tenant = this.#tenants.get(name) as Tenant<E>;
      for (const request of tenant.shares.sorted(tenant.lines.keys())) yield* tenant.lines.get(request) ?? [];
    }
  }

  *[Symbol.iterator](): IterableIterator<E> {
    for (const { lines } of this.#tenants.values()) for (const line of lines.values()) yield* line;
  }
}
