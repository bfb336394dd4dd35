// Results on their way to the database: gathered, so that many lines cost one transaction, and held back where it is slow.
import { setTimeout as wait } from "node:timers/promises";
import type { BatchRun, BatchStore, LineResult } from "./store.ts";

const gatherMs = 200;
const mostWaiting = 500;
const mostBytes = 4 * 1024 * 1024;
const retryMs = 500;

/** `lost` is called when the run was overtaken: nothing that it still adds counts. */
export class ResultWriter {
  readonly #store: Pick<BatchStore, "addResults">;
  readonly #run: BatchRun;
  readonly #lost: () => void;
  readonly #signal: AbortSignal;
  #waiting: LineResult[] = [];
  #bytes = 0;
  #addedBytes = 0;
  #writing: Promise<void> | undefined;
  /** The database refused a result: no other try would go better. */
  #refused: { readonly error: unknown } | undefined;

  /** `signal`: nobody waits for the database any more. */
  constructor(store: Pick<BatchStore, "addResults">, run: BatchRun, lost: () => void, signal: AbortSignal) {
    this.#store = store;
    this.#run = run;
    this.#lost = lost;
    this.#signal = signal;
  }

  /** Of all results that were added. */
  get addedBytes(): number {
    return this.#addedBytes;
  }

  /** Waits while too many are on their way. Throws what the database said when it refused a result, as `flush` does. */
  async add(result: LineResult): Promise<void> {
    if (this.#refused) throw this.#refused.error;
    this.#waiting.push(result);
    this.#bytes += result.body.length;
    this.#addedBytes += Buffer.byteLength(result.body);
    this.#writing ??= this.#drain();
    while (this.#waiting.length > mostWaiting || this.#bytes > mostBytes) await this.#writing;
  }

  /** All that was added is durable, or the run is over. */
  async flush(): Promise<void> {
    for (let writing = this.#writing; writing !== undefined; writing = this.#writing) await writing;
    if (this.#refused) throw this.#refused.error;
  }

  async #drain(): Promise<void> {
    await wait(gatherMs, undefined, { signal: this.#signal }).catch(() => {});
    const group = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    await this.#write(group);
    this.#writing = this.#waiting.length > 0 ? this.#drain() : undefined;
  }

  /** A group that was written without anybody hearing of it changes nothing when it is written again. */
  async #write(group: readonly LineResult[]): Promise<void> {
    while (!this.#signal.aborted && !this.#refused) {
      try {
        if (!(await this.#store.addResults(this.#run, group))) this.#lost();
        return;
      } catch (error) {
        if ((error as { code?: unknown }).code !== "store_away") this.#refused = { error };
        else await wait(retryMs, undefined, { signal: this.#signal }).catch(() => {});
      }
    }
  }
}
