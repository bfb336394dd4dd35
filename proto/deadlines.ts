// One timer for every deadline of the data path: a timer per request, moved at each chunk, would show on the hot path.
// Coarse on purpose: a deadline is noticed up to `everyMs` late.
import { type Slot, SlotList } from "./slot-list.ts";

export interface Deadline {
  /** Monotonic ms; may be moved at any time by plain assignment. */
  dueMs: number;
  /** Set while it is in the list. Changed by the list only. */
  deadline?: Slot<Deadline> | undefined;
  /** Called once per sweep while due: moves `dueMs` or deletes itself. */
  due(nowMs: number): void;
}

export class Deadlines {
  readonly #clock: () => number;
  readonly #everyMs: number;
  readonly #entries = new SlotList<Deadline>();
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
    entry.deadline = this.#entries.add(entry);
    this.#timer ??= setTimeout(this.#sweep, this.#everyMs);
  }

  delete(entry: Deadline): void {
    if (!entry.deadline) return;
    this.#entries.delete(entry.deadline);
    entry.deadline = undefined;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const entry of this.#entries) this.delete(entry);
  }

  readonly #sweep = (): void => {
    const now = this.#clock();
    for (const entry of this.#entries) if (entry.dueMs <= now) entry.due(now);
    this.#timer = this.#entries.size > 0 ? setTimeout(this.#sweep, this.#everyMs) : undefined;
  };
}
