// Durable records that nobody has acknowledged yet, as the objects they were: sending one again from the file would cost
// a read, a parse and a copy between threads. Bounded; beyond it, and for what an earlier life left, the file is asked.
import type { SpooledRecord, UsageRecord } from "../../proto/usage-record.ts";

export class Unacknowledged {
  /** By spool id, oldest first. */
  readonly #records = new Map<string, SpooledRecord>();
  readonly #maxRecords: number;
  /** Every record of the file is here too. */
  #isWhole = false;

  constructor(maxRecords = 10_000) {
    this.#maxRecords = maxRecords;
  }

  /** `record` has just become durable. */
  add(spoolId: number, record: UsageRecord): void {
    if (!this.#isWhole) return;
    if (this.#records.size < this.#maxRecords) this.#records.set(String(spoolId), { ...record, spoolId });
    else {
      this.#isWhole = false;
      this.#records.clear();
    }
  }

  acknowledged(spoolIds: readonly string[]): void {
    for (const id of spoolIds) this.#records.delete(id);
  }

  /** The file holds no record. */
  emptied(): void {
    this.#isWhole = true;
    this.#records.clear();
  }

  /** Undefined: ask the file. */
  oldest(limit: number): readonly SpooledRecord[] | undefined {
    return this.#isWhole ? this.#records.values().take(limit).toArray() : undefined;
  }
}
