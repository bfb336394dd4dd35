// Stores the pieces of all streams of this process in groups: those that arrive during one statement are written by the next.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { RequestId } from "../../proto/ids.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import type { NewPiece, StreamStore } from "./store.ts";

export interface QueuedPiece extends NewPiece {
  /** False: the run is over without this piece, so that no later one may be stored. */
  readonly isWanted: () => boolean;
  readonly stored: () => void;
  /** Another run has taken over, or the piece cannot be stored. */
  readonly lost: () => void;
}

const maxPieces = 256;
const maxGroupBytes = 1024 * 1024;
const retryMs = 250;

export class PieceQueue {
  readonly #store: Pick<StreamStore, "append">;
  readonly #log: Logger;
  readonly #maxRetryMs: number;
  readonly #waiting: QueuedPiece[] = [];
  #isRunning = false;

  /** `maxRetryMs`: longest outage of the database that a piece survives. */
  constructor(store: Pick<StreamStore, "append">, log: Logger, maxRetryMs: number) {
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
      const group = this.#waiting.splice(0, this.#groupSize()).filter(({ isWanted }) => isWanted());
      if (group.length === 0) continue;
      const lost = await this.#write(group, performance.now() + this.#maxRetryMs);
      for (const piece of group) {
        if (lost.has(piece.id)) piece.lost();
        else piece.stored();
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

  /** Returns the streams whose pieces were not stored. */
  async #write(group: readonly QueuedPiece[], endMs: number): Promise<ReadonlySet<RequestId>> {
    for (;;) {
      try {
        return await this.#store.append(group);
      } catch (error) {
        if (error instanceof DatabaseUnavailable && performance.now() < endMs) await wait(retryMs);
        else if (error instanceof DatabaseUnavailable || group.length === 1) {
          this.#log.warn({ err: error, pieces: group.length }, "could not store pieces of resumable streams");
          return new Set(group.map(({ id }) => id));
        } else return this.#writeHalves(group, endMs);
      }
    }
  }

  /** One piece that cannot be stored must not cost the streams of others. */
  async #writeHalves(group: readonly QueuedPiece[], endMs: number): Promise<ReadonlySet<RequestId>> {
    const middle = Math.ceil(group.length / 2);
    const first = await this.#write(group.slice(0, middle), endMs);
    const rest = group.slice(middle).filter(({ id }) => !first.has(id));
    return rest.length === 0 ? first : first.union(await this.#write(rest, endMs));
  }
}
