import type { Logger } from "pino";
import type { AccountId, RequestId } from "../../proto/ids.ts";
import { background, repeat } from "../../proto/repeat.ts";

/** Marks of a request that have no effect on it. */
export interface RequestMarks {
  /** `prompt_cache_key` of the body. */
  readonly cacheKey?: string | undefined;
  /** Header `x-service-source`. */
  readonly source?: string | undefined;
}

export interface RequestLabel extends RequestMarks {
  readonly requestId: RequestId;
  readonly label: string | undefined;
  readonly account: AccountId;
}

export interface LabelStore {
  saveLabels(labels: readonly RequestLabel[]): Promise<void>;
}

export interface RequestLabels {
  /**
   * Stores the caller's own `x-request-id` and other marks, for look-ups only. Written in the background; dropped when too many
   * wait.
   */
  note(requestId: RequestId, label: string | undefined, account: AccountId, marks?: RequestMarks): void;
  start(): void;
  /** Writes the waiting labels once. */
  stop(): Promise<void>;
}

const everyMs = 1_000;
const queueLimit = 20_000;
const groupSize = 1_000;

export function createRequestLabels(deps: { readonly store: LabelStore; readonly log: Logger }): RequestLabels {
  let waiting: RequestLabel[] = [];
  let dropped = 0;
  const writing = background((signal) => repeat(everyMs, signal, write));

  async function write(): Promise<void> {
    if (dropped > 0) deps.log.warn({ dropped }, "dropped request labels: too many wait for the database");
    dropped = 0;
    while (waiting.length > 0) {
      const group = waiting.slice(0, groupSize);
      try {
        await deps.store.saveLabels(group);
      } catch (error) {
        deps.log.warn({ err: error, labels: waiting.length }, "could not write request labels; will retry");
        return;
      }
      waiting = waiting.slice(group.length);
    }
  }

  return {
    note(requestId, label, account, marks = {}) {
      if (waiting.length >= queueLimit) {
        dropped += 1;
        return;
      }
      const { cacheKey, source } = marks;
      const kept = { cacheKey: short(cacheKey), source: short(source) };
      waiting.push({ ...kept, requestId, label, account });
    },
    start: writing.start,
    async stop() {
      await writing.stop();
      await write();
    },
  };
}

/** A client may send megabytes as its `prompt_cache_key`, and thousands of labels wait here. */
const longest = 512;
const short = (mark: string | undefined): string | undefined =>
  // Copied: a slice of a string keeps all of it in memory.
  mark !== undefined && mark.length > longest ? Buffer.from(mark.slice(0, longest)).toString() : mark;
