// Store of backups. Implemented by filesystem-blobs.ts and s3-blobs.ts; a blob is written atomically.
import type { Readable } from "node:stream";

export interface BlobStore {
  readonly name: "filesystem" | "s3";
  /**
   * Keeps everything `body` gives under `key`, durably when the promise resolves. When `body` ends with an error, or the
   * signal fires, nothing is kept. `key`: parts of letters, digits, dots and dashes, joined by slashes.
   */
  put(key: string, body: Readable, signal: AbortSignal): Promise<void>;
  /** Throws BackupError `backup_missing`. */
  get(key: string, signal: AbortSignal): Promise<Readable>;
  /** No-op when it is gone. */
  remove(key: string, signal: AbortSignal): Promise<void>;
  /** Removes what a `put` that was cut off by a death of this agent has left under the folder `prefix`. */
  sweep(prefix: string, signal: AbortSignal): Promise<void>;
}

/** Throws when it could name anything outside of the store. */
export function checkKey(key: string): string {
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(key)) throw new Error(`no key of a backup: ${key.slice(0, 80)}`);
  return key;
}
