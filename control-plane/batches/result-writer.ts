// Writes results to the database in groups, so that many lines cost one transaction, with back-pressure.

import { pause } from "../../proto/pause.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import type { BatchRun, BatchStore, LineResult } from "./store.ts";

const gatherMs = 200;
const maxWaiting = 500;
const maxBytes = 4 * 1024 * 1024;
const retryMs = 500;

/** `lost` is called when another run took over: later results do not count. */
export class ResultWriter {
  readonly #store: Pick<BatchStore, "addResults">;
  readonly #run: BatchRun;
  readonly #lost: () => void;
  readonly #signal: AbortSignal;
  #waiting: LineResult[] = [];
  #bytes = 0;
  #addedBytes = 0;
  #writing: Promise<void> | undefined;
  /** The database rejected a result: a retry would fail too. */
  #refused: { readonly error: unknown } | undefined;

  /** `signal`: stops waiting for the database. */
  constructor(store: Pick<BatchStore, "addResults">, run: BatchRun, lost: () => void, signal: AbortSignal) {
    this.#store = store;
    this.#run = run;
    this.#lost = lost;
    this.#signal = signal;
  }

  /** Bytes of all added results. */
  get addedBytes(): number {
    return this.#addedBytes;
  }

  /** Waits while too many are pending. Throws the database's error when it rejected a result, as `flush` does. */
  async add(result: LineResult): Promise<void> {
    if (this.#refused) throw this.#refused.error;
    this.#waiting.push(result);
    this.#bytes += result.body.length;
    this.#addedBytes += Buffer.byteLength(result.body);
    this.#writing ??= this.#drain();
    while (this.#waiting.length > maxWaiting || this.#bytes > maxBytes) await this.#writing;
  }

  /** Resolves when all added results are durable, or the run is over. */
  async flush(): Promise<void> {
    for (let writing = this.#writing; writing !== undefined; writing = this.#writing) await writing;
    if (this.#refused) throw this.#refused.error;
  }

  async #drain(): Promise<void> {
    await pause(gatherMs, this.#signal);
    const group = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    await this.#write(group);
    this.#writing = this.#waiting.length > 0 ? this.#drain() : undefined;
  }

  /** Writing a group again after a lost reply changes nothing. */
  async #write(group: readonly LineResult[]): Promise<void> {
    while (!this.#signal.aborted && !this.#refused) {
      try {
        if (!(await this.#store.addResults(this.#run, group))) this.#lost();
        return;
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) this.#refused = { error };
        else await pause(retryMs, this.#signal);
      }
    }
  }
}
