// One client's side of a resumable stream: from the run here if there is one, else from the database.
import { setTimeout as wait } from "node:timers/promises";
import type { RequestId } from "../../proto/ids.ts";
import { failureError, streamGone, streamsFull } from "./errors.ts";
import type { Piece, PieceSeal } from "./piece-seal.ts";
import type { StreamStore } from "./store.ts";
import type { StreamRun } from "./stream-run.ts";

/** `orphaned`: its run has died or given up, so that another one can continue it. */
export type StreamPart =
  | { readonly kind: "events"; readonly pieces: readonly Buffer[] }
  | { readonly kind: "ended" }
  | { readonly kind: "orphaned" };

/** A client of another control plane gets events with this delay. */
const pollMs = 500;
/** Less than the time after which a run without readers ends. */
const noteMs = 15_000;

export interface ReaderDeps {
  readonly store: StreamStore;
  readonly seal: PieceSeal;
  readonly id: RequestId;
  /** The run here, if there is one. */
  readonly run: StreamRun | undefined;
  /** Counts stored bytes that are read. False: the account has read too many. */
  readonly mayRead: (bytes: number) => boolean;
}

export class StreamReader {
  readonly #store: StreamStore;
  readonly #seal: PieceSeal;
  readonly #id: RequestId;
  readonly #mayRead: (bytes: number) => boolean;
  #run: StreamRun | undefined;
  #notedMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor({ store, seal, id, run, mayRead }: ReaderDeps) {
    this.#store = store;
    this.#seal = seal;
    this.#id = id;
    this.#mayRead = mayRead;
    this.#run = run;
    run?.addReader();
  }

  /**
   * Returns pieces from number `from` on; after `waitMs`, or when it is closed, none. Throws the error with which the stream or its run
   * here ended, streamGone, streamsFull, and DatabaseUnavailable.
   */
  async read(from: number, waitMs: number): Promise<StreamPart> {
    const endMs = performance.now() + waitMs;
    for (;;) {
      const part = (await this.#fromRun(from, endMs)) ?? (await this.#fromStore(from));
      if (part) return part;
      if (this.#isClosed || performance.now() >= endMs) return { kind: "events", pieces: [] };
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#run?.removeReader();
  }

  /** Undefined: no run here has the answer. */
  async #fromRun(from: number, endMs: number): Promise<StreamPart | undefined> {
    const run = this.#run;
    if (!run) return undefined;
    while (from >= run.storedCount && !run.ending && !this.#isClosed) {
      const leftMs = endMs - performance.now();
      if (leftMs <= 0) break;
      await run.changed(leftMs);
    }
    const tail = from < run.storedCount ? run.tail(from) : undefined;
    if (tail) return partOf(tail);
    if (from < run.storedCount) return undefined;
    const { ending } = run;
    if (!ending) return { kind: "events", pieces: [] };
    run.removeReader();
    this.#run = undefined;
    if (ending.kind === "refused") throw ending.error;
    return undefined;
  }

  /** Undefined: nothing yet. */
  async #fromStore(from: number): Promise<StreamPart | undefined> {
    const nowMs = performance.now();
    if (!this.#run && nowMs - this.#notedMs > noteMs) {
      this.#notedMs = nowMs;
      await this.#store.noteReader(this.#id);
    }
    const part = await this.#store.read(this.#id, from);
    if (!part) throw streamGone();
    const { pieces, hasEnded, lockedMs } = part;
    if (!this.#mayRead(pieces.reduce((sum, piece) => sum + piece.length, 0))) throw streamsFull();
    if (pieces.length > 0) return partOf(pieces.map((piece, i) => this.#seal.open(from + i, piece)));
    if (hasEnded) return { kind: "ended" };
    if (lockedMs <= 0) return { kind: "orphaned" };
    await wait(pollMs);
    return undefined;
  }
}

/** Events up to the end; throws the failure if it comes first. */
function partOf(pieces: readonly Piece[]): StreamPart {
  const [first] = pieces;
  if (first?.kind === "failed") throw failureError(first.bytes.toString());
  if (first?.kind === "ended") return { kind: "ended" };
  return { kind: "events", pieces: pieces.filter(({ kind }) => kind === "events").map(({ bytes }) => bytes) };
}
