/** Set of ids in sorted order: each change costs a binary search and a short copy. */
export class SortedIds<Id extends string> {
  readonly #ids: Id[] = [];

  get size(): number {
    return this.#ids.length;
  }

  has(id: Id): boolean {
    return this.#ids[this.#at(id)] === id;
  }

  add(id: Id): void {
    const at = this.#at(id);
    if (this.#ids[at] !== id) this.#ids.splice(at, 0, id);
  }

  delete(id: Id): void {
    const at = this.#at(id);
    if (this.#ids[at] === id) this.#ids.splice(at, 1);
  }

  [Symbol.iterator](): Iterator<Id> {
    return this.#ids[Symbol.iterator]();
  }

  /** Its index, or its insertion point. */
  #at(id: Id): number {
    let low = 0;
    let high = this.#ids.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ids[middle] as Id) < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
