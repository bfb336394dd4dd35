// The port to the fsynced usage spool. Implemented by state/ in a worker thread with group commit: an fsync on the main
// thread would stall every stream of the host.
import type { PendingRecord } from "../../proto/usage-record.ts";

export interface RecordRow {
  readonly requestId: string;
  readonly attempt: number;
  readonly leaseIds: readonly string[];
  /** JSON of a UsageRecord; a function where it may never be needed. */
  readonly json: string | (() => string);
}

export interface UsageSpool {
  /** False when records cannot be written (disk full, read-only): the ingress then admits nothing (refusal `spool`). */
  readonly isWritable: boolean;
  /** One unsynced write, not waited for, of the record that counts should this agent die: reason `lost`. */
  start(row: RecordRow): void;
  /** Durable (fsynced, with whatever else waited) when the promise resolves. Replaces the start row. */
  end(row: RecordRow): Promise<void>;
  /** Oldest first, for the session to send. */
  pending(limit: number): Promise<readonly PendingRecord[]>;
  acknowledge(spoolIds: readonly string[]): Promise<void>;
  /** Lease ids of start rows and of unacknowledged records. */
  openLeaseIds(): Promise<readonly string[]>;
  /** For metrics: never waits. */
  depth(): { readonly records: number; readonly oldestAgeSeconds: number; readonly bytes: number };
  /** Called when a record became pending, for the session to wake. */
  onPending(listener: () => void): void;
  close(): Promise<void>;
}
