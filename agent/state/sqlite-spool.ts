// The usage spool on the state database.
import type { UsageSpool } from "../ingress/spool.ts";
import type { StateThread } from "./state-thread.ts";

export function sqliteSpool(thread: StateThread, nowMs: () => number): UsageSpool {
  return {
    get isWritable() {
      return thread.isWritable;
    },
    start: (row) => thread.start(row),
    end: (row) => thread.end(row),
    pending: async (limit) =>
      thread.recent.oldest(limit) ??
      (await thread.pending(limit)).map(({ spoolId, record }) => ({ spoolId, json: record })),
    acknowledge: async (spoolIds) => thread.acknowledge(spoolIds),
    resend: (id) => thread.resend(id),
    openLeaseIds: () => thread.leaseIds(),
    depth: () => {
      const { records, bytes, oldestMs } = thread.depth;
      return { records, bytes, oldestAgeSeconds: oldestMs === 0 ? 0 : Math.max(0, (nowMs() - oldestMs) / 1000) };
    },
    onPending: (listener) => thread.onPending(listener),
    close: () => thread.close(),
  };
}
