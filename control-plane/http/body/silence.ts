// Detects a body that stalls.
import type { Deadline, Deadlines } from "../../../proto/deadlines.ts";

/** Maximum silence before and within a body. */
export const stallMs = 30_000;

/** Counts after the second sweep: bytes that arrived while this process was blocked are read in between. */
export class Silence implements Deadline {
  dueMs: number;
  #wasDue = false;
  readonly #waits: Deadlines;
  readonly #tooLong: () => void;

  constructor(waits: Deadlines, tooLong: () => void) {
    this.#waits = waits;
    this.#tooLong = tooLong;
    this.dueMs = waits.nowMs + stallMs;
    waits.add(this);
  }

  broken(): void {
    this.dueMs = this.#waits.nowMs + stallMs;
    this.#wasDue = false;
  }

  due(): void {
    if (this.#wasDue) this.#tooLong();
    this.#wasDue = true;
  }

  end(): void {
    this.#waits.delete(this);
  }
}
