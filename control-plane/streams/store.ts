// Storage of resumable streams. Implemented by store/accounts/stream-store.ts, whose every method throws DatabaseUnavailable.
import type { RequestId } from "../../proto/ids.ts";
import type { IdempotencyClaim } from "../accounts/store.ts";

export interface StreamRow {
  readonly id: RequestId;
  readonly startedAtMs: number;
}

export type StreamOutcome =
  /** `run`: 1 for the first; the holders of the runs before died or gave up. */
  | { readonly kind: "claimed"; readonly stream: StreamRow; readonly run: number }
  /** Another run writes it, or it has ended. */
  | { readonly kind: "known"; readonly stream: StreamRow }
  | { readonly kind: "other_request" }
  /** A request with this key is not resumable. */
  | { readonly kind: "plain"; readonly hasEnded: boolean };

export interface NewPiece {
  readonly id: RequestId;
  readonly claim: string;
  /** From 0. */
  readonly seq: number;
  readonly sealed: Buffer;
}

export interface StoredPart {
  /** In order, without gaps. */
  readonly pieces: readonly Buffer[];
  readonly hasEnded: boolean;
  /** Time until another run may take over. */
  readonly lockedMs: number;
}

export interface StreamStore {
  /** `id`: of the stream, if this is its first run. Streams are kept for `keepMs` after the last renewal of a claim. */
  claim(
    request: IdempotencyClaim & {
      readonly id: RequestId;
      readonly bodyHash: Buffer;
      readonly lockMs: number;
      readonly keepMs: number;
    },
  ): Promise<StreamOutcome>;
  renew(claim: IdempotencyClaim, lockMs: number, keepMs: number): Promise<void>;
  /** Another run may take over at once. `hasRun` false: this run does not count. */
  release(claim: IdempotencyClaim, hasRun: boolean): Promise<void>;
  /** Removes the stream. */
  abandon(claim: IdempotencyClaim): Promise<void>;
  /** `answer`: what plain repeats of the request find. */
  end(claim: IdempotencyClaim, answer: Buffer): Promise<void>;
  /** A piece may be written again. Returns the streams whose claim is no longer held; nothing of theirs was written. */
  append(pieces: readonly NewPiece[]): Promise<ReadonlySet<RequestId>>;
  /** Pieces from `from` on, about 256 KiB of them. Undefined: the stream is no longer stored. */
  read(id: RequestId, from: number): Promise<StoredPart | undefined>;
  /** Notes that a client reads the stream now. */
  noteReader(id: RequestId): Promise<void>;
  wasReadWithin(id: RequestId, ms: number): Promise<boolean>;
}
