// Storage of the bytes of files. Implemented by blobs/folder-blobs.ts and blobs/s3-blobs.ts.

import type { Readable } from "node:stream";

export interface BlobStore {
  readonly name: "folder" | "s3";
  /**
   * Stores `body` under `key`, durable when the promise resolves: a blob exists whole or not at all. Rejects with the error
   * of `body`, or when the signal aborts; then nothing is stored. Throws fileStoreUnavailable.
   */
  put(key: string, body: Readable, signal: AbortSignal): Promise<void>;
  /** Throws BlobMissing, fileStoreUnavailable. */
  get(key: string, signal?: AbortSignal): Promise<Readable>;
  /** No-op when it does not exist. Throws fileStoreUnavailable. */
  remove(key: string): Promise<void>;
}

/**
 * The database has a row for it, but the blob is missing: it was removed by hand, or this control plane uses another folder.
 */
export class BlobMissing extends Error {
  override readonly name = "BlobMissing";
}

/** Throws when the key could name anything outside of the store. */
export function checkKey(key: string): string {
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(key)) throw new Error(`invalid blob key: ${key.slice(0, 80)}`);
  return key;
}
