// Store of backups. Implemented by filesystem-blobs.ts and s3-blobs.ts; a blob is written atomically.
import type { Readable } from "node:stream";

export interface BlobStore {
  readonly name: "filesystem" | "s3";
  /**
   * Stores the content of `body` under `key`, durable when the promise resolves. Stores nothing if `body` fails or the signal
   * aborts. `key`: parts of letters, digits, dots and dashes, joined by slashes.
   */
  put(key: string, body: Readable, signal: AbortSignal): Promise<void>;
  /** Throws BackupError `backup_missing`. */
  get(key: string, signal: AbortSignal): Promise<Readable>;
  remove(key: string, signal: AbortSignal): Promise<void>;
  /** Removes remains of a `put` that the end of this agent interrupted, under the folder `prefix`. */
  sweep(prefix: string, signal: AbortSignal): Promise<void>;
}

/** Throws for a key that could leave the store. */
export function checkKey(key: string): string {
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(key)) throw new Error(`no key of a backup: ${key.slice(0, 80)}`);
  return key;
}
