import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { Retention } from "./periods.ts";
import type { Kept, RetentionStore } from "./store.ts";

const batch = 1_000;
/** Pause between batches, so that deletes do not delay customers' queries. */
const pauseMs = 25;

/**
 * Deletes rows that are older than their period, kind by kind, in small batches. Idempotent; several replicas may run it
 * concurrently. A kind that fails does not stop the others; the first failure is thrown at the end.
 */
export async function sweepOld(
  deps: { readonly store: RetentionStore; readonly retention: Retention; readonly log: Logger },
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  const deleted: Partial<Record<Kept, number>> = {};
  const failures: unknown[] = [];
  for (const [kind, keptMs] of Object.entries(deps.retention) as [Kept, number][]) {
    if (keptMs === Number.POSITIVE_INFINITY) continue;
    try {
      deleted[kind] = await sweepKind(deps.store, kind, new Date(nowMs - keptMs), signal);
    } catch (error) {
      if (signal.aborted) return;
      failures.push(error);
    }
  }
  const some = Object.fromEntries(Object.entries(deleted).filter(([, count]) => count > 0));
  if (Object.keys(some).length > 0) deps.log.info({ deleted: some }, "old rows deleted");
  if (failures.length > 0) throw failures[0];
}

async function sweepKind(store: RetentionStore, kind: Kept, before: Date, signal: AbortSignal): Promise<number> {
  let total = 0;
  while (!signal.aborted) {
    const count = await store.deleteBefore(kind, before, batch);
    total += count;
    if (count < batch) break;
    await wait(pauseMs, undefined, { signal });
  }
  return total;
}
