// Messages between the agent's main thread and its database thread. All records of a commit are sent as one text: one string
// clones much faster than objects of 27 fields or an array per record.

import type { PendingRecord } from "../../proto/usage-record.ts";
import type { SpoolResend } from "../ingress/spool.ts";

export type Write =
  | readonly ["start", requestId: string, attempt: number, leaseIds: string, record: string]
  | readonly ["acknowledge", spoolIds: readonly string[]]
  | readonly ["set", key: MetaKey, value: string];

/** A usage record to keep. */
export interface End {
  readonly requestId: string;
  readonly attempt: number;
  readonly leaseIds: string;
  readonly record: string;
  /** False: the start row was never written, so there is none to delete. */
  readonly hadStart: boolean;
}

/** One line; ids hold no tabs, JSON no line breaks. */
export const endLine = (end: End): string =>
  `${end.requestId}\t${end.attempt}\t${end.leaseIds}\t${end.hadStart ? 1 : 0}\t${end.record}\n`;

export function* readEnds(lines: string): Generator<End> {
  for (let at = 0; at < lines.length; ) {
    const field = () => {
      const tab = lines.indexOf("\t", at);
      const text = lines.slice(at, tab);
      at = tab + 1;
      return text;
    };
    const requestId = field();
    const attempt = Number(field());
    const leaseIds = field();
    const hadStart = field() === "1";
    const end = lines.indexOf("\n", at);
    const record = lines.slice(at, end);
    at = end + 1;
    yield { requestId, attempt, leaseIds, hadStart, record };
  }
}

export type MetaKey = "host_id" | "highest_epoch" | "desired" | "metering" | "commands" | "fenced" | "restore_mark";

export type ToWorker =
  /** `through` numbers the last write of the batch; the answer `written` repeats it. */
  | { readonly kind: "write"; readonly through: number; readonly writes: readonly Write[]; readonly ends: string }
  | { readonly kind: "pending"; readonly query: number; readonly limit: number }
  | { readonly kind: "leases"; readonly query: number }
  | { readonly kind: "resend"; readonly query: number; readonly id: string }
  | { readonly kind: "close" };

/** A completed resend of kept records. */
export interface Resend extends SpoolResend {
  readonly id: string;
}

/** Unacknowledged records; `oldestMs` is Unix ms, 0 without records. */
export interface SpoolDepth {
  readonly records: number;
  readonly bytes: number;
  readonly oldestMs: number;
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
  | {
      readonly kind: "written";
      readonly through: number;
      readonly lastId: number;
      readonly depth: SpoolDepth;
      /** The disk is full: the reserve is in use, and nothing new may be admitted. */
      readonly isLow: boolean;
    }
  /** Nothing is lost: the same batch is tried again until it can be written. */
  | { readonly kind: "failing"; readonly reason: string }
  /** `answer`: rows, lease ids or a completed resend, as the query asked. */
  | {
      readonly kind: "answered";
      readonly query: number;
      readonly answer: readonly PendingRecord[] | readonly string[] | Resend;
    }
  /** The query cannot be answered now: the file is being replaced. */
  | { readonly kind: "unanswered"; readonly query: number; readonly reason: string }
  | { readonly kind: "moved"; readonly depth: SpoolDepth }
  /** Kept records could not be made pending; the thread retries. */
  | { readonly kind: "not_moved"; readonly reason: string }
  | { readonly kind: "closed" };
