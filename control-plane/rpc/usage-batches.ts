// Receives the usage batches of one session. A host may be hostile: a batch needs a permit before its text is read, and an
// invalid text ends the session.
import type { Logger } from "pino";
import { readUsageBatch, type SpooledRecord } from "../../proto/usage-record.ts";

export interface UsageBatches {
  /** Returns at once: a slow settlement must not delay renewals. */
  take(batch: string): void;
}

/** An honest agent has one batch in progress, or a repeated one. */
const maxInProgress = 4;
/** An honest agent repeats a batch after 30 s. */
const maxSurplus = 8;
const surplusWindowMs = 10_000;

export function createUsageBatches(deps: {
  readonly settle: (records: readonly SpooledRecord[]) => Promise<readonly string[]>;
  readonly acknowledge: (spoolIds: readonly string[]) => void;
  /** Ends the session because of what the host sent. */
  readonly refuseHost: (why: string) => void;
  readonly monotonicMs: () => number;
  readonly log: Logger;
}): UsageBatches {
  let inProgress = 0;
  let surplus = 0;
  let windowEndsMs = Number.NEGATIVE_INFINITY;

  function countSurplus(): void {
    const nowMs = deps.monotonicMs();
    if (nowMs >= windowEndsMs) {
      surplus = 0;
      windowEndsMs = nowMs + surplusWindowMs;
      deps.log.warn({ inProgress }, "too many usage batches in progress; the agent sends this one again");
    }
    surplus += 1;
    if (surplus > maxSurplus) deps.refuseHost("too many usage batches at once");
  }

  return {
    take(batch) {
      if (inProgress >= maxInProgress) return countSurplus();
      inProgress += 1;
      let records: readonly SpooledRecord[];
      try {
        records = readUsageBatch(batch);
      } catch (error) {
        inProgress -= 1;
        return deps.refuseHost((error as Error).message);
      }
      void deps.settle(records).then((spoolIds) => {
        inProgress -= 1;
        // Also sent when nothing was durable: the agent then sends other records.
        deps.acknowledge(spoolIds);
      });
    },
  };
}
