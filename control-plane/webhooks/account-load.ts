// Running work of a queue by account, and the limits for more: a count for fairness, bytes for this process's memory.
// INVARIANT: each started item is ended once, with the same bytes.

export const mib = 1024 ** 2;

interface LoadLimits {
  readonly maxPerAccount: number;
  /** Nothing starts while this many bytes run; the last item started may exceed it. */
  readonly maxBytes: number;
  readonly maxBytesPerAccount: number;
}

interface Load {
  readonly count: number;
  readonly bytes: number;
}

export interface LoadCapacity extends LoadLimits {
  /** Keyed by account. */
  readonly running: ReadonlyMap<string, Load>;
  readonly runningBytes: number;
}

export class AccountLoad {
  readonly #limits: LoadLimits;
  readonly #running = new Map<string, Load>();
  #bytes = 0;

  constructor(limits: LoadLimits) {
    this.#limits = limits;
  }

  capacity(): LoadCapacity {
    return { ...this.#limits, running: this.#running, runningBytes: this.#bytes };
  }

  started(account: string, bytes: number): void {
    this.#add(account, 1, bytes);
  }

  ended(account: string, bytes: number): void {
    this.#add(account, -1, -bytes);
  }

  #add(account: string, count: number, bytes: number): void {
    const before = this.#running.get(account) ?? { count: 0, bytes: 0 };
    this.#bytes += bytes;
    if (before.count + count <= 0) this.#running.delete(account);
    else this.#running.set(account, { count: before.count + count, bytes: before.bytes + bytes });
  }
}
