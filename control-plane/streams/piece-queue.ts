// Stores the pieces of all streams of this process in groups: those that arrive during one statement are written by the next.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { DatabaseUnavailable } from "../service-error.ts";
import type { NewPiece, StreamStore } from "./store.ts";

export interface QueuedPiece extends NewPiece {
  readonly stored: () => void;
  /** Another run has taken over, or the piece cannot be stored. Called at most once for each piece. */
  readonly lost: () => void;
}

const maxPieces = 256;
const maxGroupBytes = 1024 * 1024;
const retryMs = 250;

export class PieceQueue {
  readonly #store: StreamStore;
  readonly #log: Logger;
  readonly #maxRetryMs: number;
  readonly #waiting: QueuedPiece[] = [];
  #isRunning = false;

  /** `maxRetryMs`: longest outage of the database that a piece survives. */
  constructor(store: StreamStore, log: Logger, maxRetryMs: number) {
    this.#store = store;
    this.#log = log;
    this.#maxRetryMs = maxRetryMs;
  }

  add(piece: QueuedPiece): void {
    this.#waiting.push(piece);
    if (!this.#isRunning) void this.#drain();
  }

  async #drain(): Promise<void> {
    this.#isRunning = true;
    // Pieces of this turn of the event loop form the first group.
    await undefined;
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, this.#groupSize());
      const lost = await this.#write(group);
      for (const piece of group) {
        if (lost?.has(piece.id) === false) piece.stored();
        else piece.lost();
      }
    }
    this.#isRunning = false;
  }

  /** At least 1. */
  #groupSize(): number {
    let bytes = 0;
    const end = this.#waiting.findIndex(({ sealed }, i) => {
      bytes += sealed.length;
      return i === maxPieces || (i > 0 && bytes > maxGroupBytes);
    });
    return end < 0 ? this.#waiting.length : end;
  }

  /** Returns the streams that another run has taken over; undefined: nothing could be stored. */
  async #write(group: readonly QueuedPiece[]): Promise<ReadonlySet<string> | undefined> {
    const endMs = performance.now() + this.#maxRetryMs;
    for (;;) {
      try {
        return await this.#store.append(group);
      } catch (error) {
        if (error instanceof DatabaseUnavailable && performance.now() < endMs) await wait(retryMs);
        else {
          this.#log.warn({ err: error, pieces: group.length }, "could not store pieces of resumable streams");
          return undefined;
        }
      }
    }
  }
}
