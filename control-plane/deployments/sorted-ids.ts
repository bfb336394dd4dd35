/** A set of ids that is read in order: a binary search and a short move of memory per change. */
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

  /** Where it stands, or would. */
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
