// Stored pieces of streams: events, or how the stream ended, sealed with the account's data key and bound to their place.
import type { RequestId } from "../../proto/ids.ts";
import { openBytes, sealBytes, sealSecret } from "../accounts/envelope.ts";
import type { KeyedRequest } from "../accounts/idempotency.ts";
import type { StreamStore } from "./store.ts";

const kinds = ["events", "ended", "failed"] as const;

/** `bytes`: whole events of the chat, or the failure. */
export interface Piece {
  readonly kind: (typeof kinds)[number];
  readonly bytes: Buffer;
}

export class PieceSeal {
  readonly #dek: Buffer;
  readonly #request: Pick<KeyedRequest, "account" | "route" | "key">;
  readonly #id: RequestId;

  constructor(dek: Buffer, request: Pick<KeyedRequest, "account" | "route" | "key">, id: RequestId) {
    this.#dek = dek;
    this.#request = request;
    this.#id = id;
  }

  seal(seq: number, { kind, bytes }: Piece): Buffer {
    const plain = Buffer.concat([Buffer.of(kinds.indexOf(kind)), bytes]);
    return sealBytes(this.#dek, plain, this.#request.account, this.#purpose(seq));
  }

  /** Throws when it is not what was stored there. */
  open(seq: number, sealed: Buffer): Piece {
    const plain = openBytes(this.#dek, sealed, this.#request.account, this.#purpose(seq));
    const kind = kinds[plain[0] as number];
    if (!kind) throw new Error("unknown kind of a stream's piece");
    return { kind, bytes: plain.subarray(1) };
  }

  /** The answer of a request that ran and whose response is not kept as one: plain repeats of it are refused. */
  spent(): Buffer {
    const { account, route, key } = this.#request;
    return sealSecret(this.#dek, "null", account, `idempotency.answer|${route}|${key}`);
  }

  #purpose(seq: number): string {
    return `stream_piece|${this.#id}|${seq}`;
  }
}

/** All pieces of a stream. Throws DatabaseUnavailable. */
export async function readAll(store: Pick<StreamStore, "read">, seal: PieceSeal, id: RequestId): Promise<Piece[]> {
  const all: Piece[] = [];
  for (;;) {
    const part = await store.read(id, all.length);
    if (!part || part.pieces.length === 0) return all;
    for (const piece of part.pieces) all.push(seal.open(all.length, piece));
  }
}
