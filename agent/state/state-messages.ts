// What passes between the agent's main thread and the thread that owns its database. Records travel as JSON text: one
// string clones much faster than an object of 27 fields.

export type Write =
  | readonly ["start", requestId: string, attempt: number, leaseIds: string, record: string]
  /** `hadStart` false: the start row never left the main thread, so there is none to delete. */
  | readonly ["end", requestId: string, attempt: number, leaseIds: string, record: string, hadStart: boolean]
  | readonly ["acknowledge", spoolIds: readonly string[]]
  | readonly ["set", key: MetaKey, value: string];

export type MetaKey = "host_id" | "highest_epoch" | "desired" | "metering";

export type ToWorker =
  /** `through` numbers the last write of the batch; the answer `written` repeats it. */
  | { readonly kind: "write"; readonly through: number; readonly writes: readonly Write[] }
  | { readonly kind: "pending"; readonly query: number; readonly limit: number }
  | { readonly kind: "leases"; readonly query: number }
  | { readonly kind: "close" };

/** Unacknowledged records; `oldestMs` is Unix ms, 0 without records. */
export interface SpoolDepth {
  readonly records: number;
  readonly bytes: number;
  readonly oldestMs: number;
}

export interface PendingRow {
  readonly spoolId: string;
  readonly record: string;
}

export type FromWorker =
  | {
      readonly kind: "opened";
      readonly meta: Readonly<Partial<Record<MetaKey, string>>>;
      /** Start rows without an end, now records of reason `lost`. */
      readonly lost: number;
      readonly depth: SpoolDepth;
    }
  | { readonly kind: "not_opened"; readonly reason: string }
  | { readonly kind: "moved_aside"; readonly to: string; readonly reason: string }
  /** `lastId`: spool id of the last record; the records of all that became durable with it have consecutive ids. */
  | { readonly kind: "written"; readonly through: number; readonly lastId: number; readonly depth: SpoolDepth }
  /** Nothing is lost: the same batch is tried again until it can be written. */
  | { readonly kind: "failing"; readonly reason: string }
  | { readonly kind: "rows"; readonly query: number; readonly rows: readonly PendingRow[] }
  /** A question that cannot be answered now: the file is being replaced. */
  | { readonly kind: "unanswered"; readonly query: number; readonly reason: string }
  | { readonly kind: "lease_ids"; readonly query: number; readonly ids: readonly string[] }
  | { readonly kind: "closed" };
