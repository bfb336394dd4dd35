// Texts of durable records that are not yet acknowledged: sending one from the file would cost a read and a copy between
// threads, and objects would cost the garbage collector. Bounded; above the bound and after a restart the file is read.
import type { PendingRecord } from "../../proto/usage-record.ts";

export class Unacknowledged {
  /** Oldest first. */
  #records: PendingRecord[] = [];
  readonly #maxRecords: number;
  /** True while this contains every record of the file. */
  #isWhole = false;

  constructor(maxRecords = 10_000) {
    this.#maxRecords = maxRecords;
  }

  /** `json` has just become durable. */
  add(spoolId: number, json: string): void {
    if (!this.#isWhole) return;
    if (this.#records.length < this.#maxRecords) this.#records.push({ spoolId: String(spoolId), json });
    else this.incomplete();
  }

  acknowledged(spoolIds: readonly string[]): void {
    const gone = new Set(spoolIds);
    this.#records = this.#records.filter(({ spoolId }) => !gone.has(spoolId));
  }

  /** The file holds records that are not here. */
  incomplete(): void {
    this.#isWhole = false;
    this.#records = [];
  }

  /** The file holds no record. */
  emptied(): void {
    this.#isWhole = true;
    this.#records = [];
  }

  /** Undefined: read the file. */
  oldest(limit: number): readonly PendingRecord[] | undefined {
    return this.#isWhole ? this.#records.slice(0, limit) : undefined;
  }
}
