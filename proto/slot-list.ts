// A set of what is open now, for the hot path. A Map or Set that requests enter and leave is copied to a new table every few
// dozen requests, and an array that shrinks is copied when it grows again. Once V8 has moved one out of the young generation,
// each copy that it leaves behind keeps the requests of its time alive until the next full collection, and every young
// collection before that copies them.

export interface Slot<T> {
  readonly value: T;
  /** Position in the list; -1: deleted. Changed by the list only. */
  at: number;
}

export class SlotList<T> {
  /** As long as the list ever was: never shortened. */
  readonly #slots: (Slot<T> | undefined)[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(value: T): Slot<T> {
    const slot = { value, at: this.#size };
    this.#slots[this.#size] = slot;
    this.#size += 1;
    return slot;
  }

  /** Does nothing if it was deleted before. */
  delete(slot: Slot<T>): void {
    if (slot.at < 0) return;
    this.#size -= 1;
    const last = this.#slots[this.#size] as Slot<T>;
    this.#slots[slot.at] = last;
    last.at = slot.at;
    this.#slots[this.#size] = undefined;
    slot.at = -1;
  }

  /** From the last to the first: the current value may be deleted during the iteration. */
  *[Symbol.iterator](): IterableIterator<T> {
    for (let i = this.#size - 1; i >= 0; i--) {
      const slot = this.#slots[i];
      if (slot) yield slot.value;
    }
  }
}
