// Durable records that nobody has acknowledged yet, as the texts they were: sending one again from the file would cost a
// read and a copy between threads, and kept objects cost the collector. Bounded; beyond it, and for what an earlier life left, the file is asked.
import type { PendingRecord } from "../../proto/usage-record.ts";

export class Unacknowledged {
  /** By spool id, oldest first. */
  readonly #records = new Map<string, string>();
  readonly #maxRecords: number;
  /** Every record of the file is here too. */
  #isWhole = false;

  constructor(maxRecords = 10_000) {
    this.#maxRecords = maxRecords;
  }

  /** `json` has just become durable. */
  add(spoolId: number, json: string): void {
    if (!this.#isWhole) return;
    if (this.#records.size < this.#maxRecords) this.#records.set(String(spoolId), json);
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
  oldest(limit: number): readonly PendingRecord[] | undefined {
    if (!this.#isWhole) return undefined;
    const records: PendingRecord[] = [];
    for (const [spoolId, json] of this.#records) {
      if (records.length === limit) break;
      records.push({ spoolId, json });
    }
    return records;
  }
}
