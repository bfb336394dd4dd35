// Processes every deployment in turn. An error of one does not stop the others; an unavailable database ends the pass,
// because the others would wait for it too.

import type { Logger } from "pino";
import type { DeploymentId } from "../../proto/ids.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import type { Active } from "./store.ts";
import type { Timer } from "./timers.ts";

/** Lost a race; a retry may succeed. */
export class RacesLost extends Error {}

/** Result of processing one deployment. */
export interface Checked {
  readonly isMoved: boolean;
  /** No query was needed. */
  readonly isIdle: boolean;
  /** Next timer, if it is due soon. */
  readonly timer: Timer | undefined;
}

/** Delay before the first retry of a failed step. */
const retryMs = 250;

export function createCheckAll<Facts>(deps: {
  readonly active: () => Promise<readonly Active[]>;
  readonly step: (one: Active, facts: Facts) => Promise<Checked>;
  readonly setTimers: (timers: readonly Timer[]) => void;
  readonly log: Pick<Logger, "info" | "warn">;
  /** Unix ms. */
  readonly unixMs: () => number;
}): (facts: Facts) => Promise<number> {
  /** Deployments that timed out at the database in the last pass. */
  let unanswered: ReadonlySet<DeploymentId> = new Set();

  /** Process those last: when many wait for one lock, all others are done before the pass ends at them. */
  async function inOrder(): Promise<readonly Active[]> {
    const all = await deps.active();
    const isLast = (one: Active) => Number(unanswered.has(one.deployment.id));
    return unanswered.size > 0 ? all.toSorted((a, b) => isLast(a) - isLast(b)) : all;
  }

  /**
   * Returns when to retry a failed step. A lock timeout waits for the next poll: each retry takes as long as a statement
   * may.
   */
  function retryOf({ deployment: { id } }: Active, { error, isSilent }: Failed): Timer | undefined {
    const level = error instanceof RacesLost ? "info" : "warn";
    deps.log[level]({ err: error, deployment: id }, "deployment step failed; will retry");
    return isSilent ? undefined : { id, kind: "retry", atMs: deps.unixMs() + retryMs };
  }

  /** Returns the number of changed deployments. Throws the database's error when it is unavailable. */
  return async (facts) => {
    const timers: Timer[] = [];
    const silent = new Set<DeploymentId>();
    let moved = 0;
    let silentInARow = 0;
    const all = await inOrder();
    try {
      for (const one of all) {
        const checked = await deps.step(one, facts).catch((error: unknown) => new Failed(error));
        const isFailed = checked instanceof Failed;
        if (isFailed && checked.isSilent) {
          silent.add(one.deployment.id);
          silentInARow += 1;
          // One timeout may be a lock; two in a row mean that the database is unavailable.
          if (silentInARow > 1) throw checked.error;
        } else if (isFailed || !checked.isIdle) silentInARow = 0;
        if (!isFailed && checked.isMoved) moved += 1;
        const timer = isFailed ? retryOf(one, checked) : checked.timer;
        if (timer) timers.push(timer);
      }
    } finally {
      unanswered = silent;
      deps.setTimers(timers);
    }
    return moved;
  };
}

class Failed {
  readonly error: unknown;
  /** The database did not respond. */
  readonly isSilent: boolean;
  constructor(error: unknown) {
    this.error = error;
    this.isSilent = error instanceof DatabaseUnavailable;
  }
}
