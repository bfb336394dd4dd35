// Counts the records of each set of leases, so that the sets in use are known without reading every record. A set is the text
// stored with a record: lease ids with commas between them.

export class LeaseCounts {
  readonly #counts = new Map<string, number>();

  /** `count` may be negative. */
  add(leaseIds: string, count: number): void {
    const next = (this.#counts.get(leaseIds) ?? 0) + count;
    if (next > 0) this.#counts.set(leaseIds, next);
    else this.#counts.delete(leaseIds);
  }

  /** Sets with at least one record. */
  sets(): IterableIterator<string> {
    return this.#counts.keys();
  }
}
