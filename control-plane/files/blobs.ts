// Where the bytes of files lie. Implemented by blobs/folder-blobs.ts and blobs/s3-blobs.ts.
import type { Readable } from "node:stream";

export interface BlobStore {
  readonly name: "folder" | "s3";
  /**
   * Keeps all that `body` gives under `key`, durably when the promise resolves: a blob is there whole or not at all. Ends
   * with the error of `body`, or when the signal fires; then nothing is kept. Throws FileStoreAway.
   */
  put(key: string, body: Readable, signal: AbortSignal): Promise<void>;
  /** Throws BlobMissing, FileStoreAway. */
  get(key: string, signal?: AbortSignal): Promise<Readable>;
  /** No-op when it is gone. Throws FileStoreAway. */
  remove(key: string): Promise<void>;
}

/** A row names it, and it is not there: it was taken away by hand, or this control plane looks at another folder. */
export class BlobMissing extends Error {
  override readonly name = "BlobMissing";
}
