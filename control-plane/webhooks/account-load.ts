// What of a queue is worked on, by account, and how much more may be: in number for fairness, in bytes for this process's
// memory. INVARIANT: each begun item is ended once, with the same bytes.

export const mib = 1024 ** 2;

interface LoadLimits {
  readonly mostOfAccount: number;
  /** Nothing is begun while this much runs: it is passed by the last one begun at most. */
  readonly mostBytes: number;
  readonly mostBytesOfAccount: number;
}

interface Load {
  readonly count: number;
  readonly bytes: number;
}

export interface LoadRoom extends LoadLimits {
  /** By account. */
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

  room(): LoadRoom {
    return { ...this.#limits, running: this.#running, runningBytes: this.#bytes };
  }

  began(account: string, bytes: number): void {
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
