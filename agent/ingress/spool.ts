// The port to the fsynced usage spool. Implemented by state/ in a worker thread with group commit: an fsync on the main
// thread would stall every stream of the host.
import type { PendingRecord } from "../../proto/usage-record.ts";

export interface RecordRow {
  readonly requestId: string;
  readonly attempt: number;
  readonly leaseIds: readonly string[];
  /** JSON of a UsageRecord; a function if it may not be needed. */
  readonly json: string | (() => string);
}

export interface SpoolResend {
  readonly records: number;
  /** Highest spool id of these records. */
  readonly throughId: string;
  readonly dropped: number;
  readonly droppedThroughMs: number;
}

export interface UsageSpool {
  /** False when records cannot be written (disk full, read-only): the ingress then admits nothing (refusal `spool`). */
  readonly isWritable: boolean;
  /** Writes the record that counts if this agent dies (reason `lost`), without fsync and without waiting. */
  start(row: RecordRow): void;
  /** Resolves when the record is durable (fsynced together with other waiting writes). Replaces the start row. */
  end(row: RecordRow): Promise<void>;
  /**
   * Records for the session to send, oldest first; while records of a resend are pending, these and newer ones alternate. The
   * first is always the oldest.
   */
  pending(limit: number): Promise<readonly PendingRecord[]>;
  acknowledge(spoolIds: readonly string[]): Promise<void>;
  /**
   * Makes acknowledged records that are still kept pending again, durably and once per `id`, and resolves when all are. `dropped`
   * counts the kept records that were dropped so far; the youngest of them was acknowledged at `droppedThroughMs` (Unix ms).
   */
  resend(id: string): Promise<SpoolResend>;
  /** Lease ids of start rows and of unacknowledged records. */
  openLeaseIds(): Promise<readonly string[]>;
  /** For metrics: never waits. */
  depth(): { readonly records: number; readonly oldestAgeSeconds: number; readonly bytes: number };
  /** Called when a record became pending, for the session to wake. */
  onPending(listener: () => void): void;
  close(): Promise<void>;
}
