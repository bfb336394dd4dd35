// A run of this process that writes a stream, with its newest pieces for readers here.
import type { Logger } from "pino";
import type { RequestId } from "../../proto/ids.ts";
import type { HourlyBytes } from "../accounts/hourly-bytes.ts";
import { holdOn } from "../accounts/idempotency.ts";
import type { IdempotencyClaim } from "../accounts/store.ts";
import type { StreamFailure } from "./errors.ts";
import type { PieceQueue } from "./piece-queue.ts";
import { type Piece, type PieceSeal, readAll } from "./piece-seal.ts";
import type { StreamStore } from "./store.ts";

export interface StreamLimits {
  /** A run that does not renew its claim within this time counts as dead. */
  readonly lockMs: number;
  /** Streams are kept for this time after their beginning, or the beginning of their last run. */
  readonly keepMs: number;
  /** A run ends when no client was connected for this time. */
  readonly awayMs: number;
  readonly maxBytes: number;
  readonly maxPieces: number;
}

/** Newest pieces in memory. A reader that is further behind reads stored ones. */
const maxTailBytes = 256 * 1024;

/** Size of a stored piece beside its bytes. */
const pieceBytes = 64;

/** How a run ended, for its readers here; `taken`: by another process. */
type RunEnd = { readonly kind: "ended" | "taken" } | { readonly kind: "refused"; readonly error: unknown };

export interface RunDeps {
  readonly store: StreamStore;
  readonly queue: PieceQueue;
  readonly seal: PieceSeal;
  readonly claim: IdempotencyClaim;
  readonly id: RequestId;
  /** From 1. */
  readonly number: number;
  /** Pieces of the runs before. */
  readonly before: readonly Piece[];
  /** Bytes that the account has stored. */
  readonly hour: HourlyBytes;
  readonly limits: StreamLimits;
  readonly log: Logger;
  /** Called once. */
  readonly onOver: () => void;
}

/** Ended once, by `end`, `fail`, `release` or `abandon`, none of which rejects, or by another run that takes over; later calls have no effect. */
export class StreamRun {
  /** Called when the run must stop, because it has been ended. */
  onStop = () => {};
  /** Called whenever fewer bytes wait to be stored. */
  onStored = () => {};
  waitingBytes = 0;
  /** Why it ended for good, if it failed. */
  failure: StreamFailure | undefined;
  readonly number: number;
  readonly #deps: RunDeps;
  readonly #stopRenewing: () => void;
  readonly #tail: Piece[] = [];
  #tailBytes = 0;
  /** Number of the next piece. */
  #next: number;
  /** Number of the first piece that is not stored. */
  #stored: number;
  #bytes = 0;
  #end: RunEnd | undefined;
  #isClosing = false;
  #readers = 0;
  #away: NodeJS.Timeout | undefined;
  readonly #waiting = new Set<() => void>();

  constructor(deps: RunDeps) {
    this.#deps = deps;
    this.number = deps.number;
    this.#next = deps.before.length;
    this.#stored = this.#next;
    for (const { bytes } of deps.before) this.#bytes += bytes.length;
    const { store, claim, limits } = deps;
    this.#stopRenewing = holdOn(() => store.renew(claim, limits.lockMs, limits.keepMs), limits.lockMs / 3);
  }

  /** No run has sent anything. */
  get isEmpty(): boolean {
    return this.#next === 0;
  }

  /** Pieces that can be sent. */
  get storedCount(): number {
    return this.#stored;
  }

  /** Nothing more will be written. */
  get isOver(): boolean {
    return this.#isClosing || this.#end !== undefined;
  }

  get ending(): RunEnd | undefined {
    return this.#end;
  }

  append(bytes: Buffer): void {
    if (this.isOver) return;
    this.#bytes += bytes.length;
    const { hour, claim, limits } = this.#deps;
    // Only new streams are refused when the hour is full.
    hour.takes(claim.account, bytes.length + pieceBytes);
    if (this.#bytes > limits.maxBytes || this.#next >= limits.maxPieces) void this.fail("too_long");
    else this.#add({ kind: "events", bytes });
  }

  /** Resolves when all pieces are stored, or the run has ended. */
  async stored(): Promise<void> {
    while (this.#stored < this.#next && !this.#end) await this.changed();
  }

  /** All pieces so far, of the runs before too. Throws DatabaseUnavailable. */
  async pieces(): Promise<readonly Buffer[]> {
    await this.stored();
    const { store, seal, id } = this.#deps;
    return (await readAll(store, seal, id)).map(({ bytes }) => bytes);
  }

  async end(): Promise<void> {
    await this.#finish({ kind: "ended", bytes: Buffer.alloc(0) });
  }

  async fail(failure: StreamFailure): Promise<void> {
    if (!this.isOver) this.failure = failure;
    await this.#finish({ kind: "failed", bytes: Buffer.from(failure) });
  }

  /** The next request continues the stream. Readers here get `error`. */
  release(error: unknown): Promise<void> {
    return this.#handOver(error, true);
  }

  /** As `release`, for a run that sent nothing to a host: it does not count. */
  async withdraw(error: unknown): Promise<void> {
    await (this.isEmpty ? this.abandon(error) : this.#handOver(error, false));
  }

  async #handOver(error: unknown, hasRun: boolean): Promise<void> {
    this.#isClosing = true;
    this.onStop();
    await this.stored();
    if (this.#end) return;
    this.#over({ kind: "refused", error });
    await this.#tolerate(this.#deps.store.release(this.#deps.claim, hasRun));
  }

  /** Nothing was sent: a repeated request starts again. Readers here get `error`. */
  async abandon(error: unknown): Promise<void> {
    if (this.#end) return;
    this.#over({ kind: "refused", error });
    await this.#tolerate(this.#deps.store.abandon(this.#deps.claim));
  }

  // Readers' side.

  /** Undefined: no longer in memory. */
  tail(from: number): readonly Piece[] | undefined {
    const first = this.#stored - this.#tail.length;
    return from < first ? undefined : this.#tail.slice(from - first);
  }

  /** Resolves at the next change, or after `ms`. */
  changed(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#waiting.delete(end);
        resolve();
      };
      const timer = ms === undefined ? undefined : setTimeout(end, ms);
      this.#waiting.add(end);
    });
  }

  addReader(): void {
    this.#readers += 1;
    clearTimeout(this.#away);
  }

  removeReader(): void {
    this.#readers -= 1;
    this.#change();
    if (this.#readers === 0 && !this.#end) this.#awaitReader();
  }

  #awaitReader(): void {
    const { awayMs } = this.#deps.limits;
    clearTimeout(this.#away);
    this.#away = setTimeout(() => void this.#endUnread(), awayMs).unref();
  }

  async #endUnread(): Promise<void> {
    const { store, id, limits } = this.#deps;
    // A client may read it from another control plane.
    const isRead = await store.wasReadWithin(id, limits.awayMs).catch(() => true);
    if (this.#readers > 0 || this.#end) return;
    if (isRead) this.#awaitReader();
    else await this.fail("left");
  }

  #add(piece: Piece): void {
    const { queue, seal, claim, id } = this.#deps;
    const seq = this.#next++;
    this.waitingBytes += piece.bytes.length;
    queue.add({
      id,
      claim: claim.claim,
      seq,
      sealed: seal.seal(seq, piece),
      isWanted: () => this.#end === undefined,
      stored: () => {
        this.waitingBytes -= piece.bytes.length;
        this.#stored = seq + 1;
        this.#tail.push(piece);
        this.#tailBytes += piece.bytes.length;
        while (this.#tailBytes > maxTailBytes) this.#tailBytes -= (this.#tail.shift() as Piece).bytes.length;
        this.#change();
        this.onStored();
      },
      lost: () => this.#over({ kind: "taken" }),
    });
  }

  async #finish(last: Piece): Promise<void> {
    if (this.isOver) return;
    this.#isClosing = true;
    const { store, claim, seal, before } = this.#deps;
    // A run before may have written the last piece.
    if (before.every(({ kind }) => kind === "events")) this.#add(last);
    this.onStop();
    await this.stored();
    if (this.#end) return;
    this.#over({ kind: "ended" });
    await this.#tolerate(store.end(claim, seal.spent()));
  }

  /** Logs an error of the database: the claim then expires, and the next run finds what this one stored. */
  async #tolerate(written: Promise<void>): Promise<void> {
    await written.catch((err: unknown) =>
      this.#deps.log.warn({ err, requestId: this.#deps.id }, "could not end a run of a stream"),
    );
  }

  #over(end: RunEnd): void {
    if (this.#end) return;
    this.#end = end;
    clearTimeout(this.#away);
    this.#stopRenewing();
    this.#change();
    this.onStop();
    this.#deps.onOver();
  }

  #change(): void {
    for (const end of [...this.#waiting]) end();
  }
}
