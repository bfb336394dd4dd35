// A body of which nothing more comes is not waited for.
import type { Deadline, Deadlines } from "../../../proto/deadlines.ts";

/** Longest silence before a body and in the middle of it. */
export const stallMs = 30_000;

/** Told of twice before it counts: bytes that came while this process itself stood still are read between the two. */
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
