// One timer for every wait of the data path: a timer per request, moved at each chunk, would show on the hot path.
// Coarse on purpose: a deadline is noticed up to `everyMs` late.

export interface Deadline {
  /** Monotonic ms; may be moved at any time by plain assignment. */
  dueMs: number;
  /** Its place in the list; -1 outside. Moved by the list alone. */
  slot: number;
  /** Called once per sweep while due: moves `dueMs` or deletes itself. */
  due(nowMs: number): void;
}

export class Deadlines {
  readonly #clock: () => number;
  readonly #everyMs: number;
  // Not a Set: each time one rehashes it leaves a table behind that keeps finished requests alive until the next full
  // collection, and every collection before it copies them. That cost a quarter of the CPU of a request.
  readonly #entries: Deadline[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(clock: () => number = () => performance.now(), everyMs = 250) {
    this.#clock = clock;
    this.#everyMs = everyMs;
  }

  /** Monotonic. */
  get nowMs(): number {
    return this.#clock();
  }

  add(entry: Deadline): void {
    entry.slot = this.#entries.push(entry) - 1;
    this.#timer ??= setTimeout(this.#sweep, this.#everyMs);
  }

  delete(entry: Deadline): void {
    if (entry.slot < 0) return;
    const last = this.#entries.pop() as Deadline;
    if (last !== entry) {
      this.#entries[entry.slot] = last;
      last.slot = entry.slot;
    }
    entry.slot = -1;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const entry of this.#entries) entry.slot = -1;
    this.#entries.length = 0;
  }

  readonly #sweep = (): void => {
    const now = this.#clock();
    // From the end: one that deletes itself is replaced by one that was looked at already.
    for (let i = this.#entries.length - 1; i >= 0; i--) {
      const entry = this.#entries[i];
      if (entry && entry.dueMs <= now) entry.due(now);
    }
    this.#timer = this.#entries.length > 0 ? setTimeout(this.#sweep, this.#everyMs) : undefined;
  };
}
