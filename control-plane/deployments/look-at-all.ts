// A look at every deployment, one after the other. What goes wrong with one holds up no other; a database that is away ends the
// look, since every other one would wait for it as well.
import type { Logger } from "pino";
import type { DeploymentId } from "../../proto/ids.ts";
import type { Active } from "./store.ts";
import type { Timer } from "./timers.ts";

/** Nothing is wrong: another try finds out. */
export class RacesLost extends Error {}

/** What one look at one deployment came to. */
export interface Looked {
  readonly isMoved: boolean;
  /** Nothing was asked of the database. */
  readonly isIdle: boolean;
  /** When to look at it again, if that is soon. */
  readonly timer: Timer | undefined;
}

/** Until the first try after what could not be done. */
const retryMs = 250;

export function createLookAtAll<Facts>(deps: {
  readonly active: () => Promise<readonly Active[]>;
  readonly step: (one: Active, facts: Facts) => Promise<Looked>;
  readonly setTimers: (timers: readonly Timer[]) => void;
  readonly log: Pick<Logger, "info" | "warn">;
  /** Unix ms. */
  readonly unixMs: () => number;
}): (facts: Facts) => Promise<number> {
  /** Those at which the database did not answer at the last look. */
  let unanswered: ReadonlySet<DeploymentId> = new Set();

  /** Those last: where many wait for one lock, all others have had their turn before a look ends at them. */
  async function inOrder(): Promise<readonly Active[]> {
    const all = await deps.active();
    const isLast = (one: Active) => Number(unanswered.has(one.deployment.id));
    return unanswered.size > 0 ? all.toSorted((a, b) => isLast(a) - isLast(b)) : all;
  }

  /** When to try again what could not be done. The next look is soon enough for a lock: each try waits as long as a statement may. */
  function retryOf({ deployment: { id } }: Active, { error, isSilent }: Failed): Timer | undefined {
    const level = error instanceof RacesLost ? "info" : "warn";
    deps.log[level]({ err: error, deployment: id }, "a step of a deployment could not be done; it is tried again");
    return isSilent ? undefined : { id, kind: "retry", atMs: deps.unixMs() + retryMs };
  }

  /** Returns how many were moved. Throws what the database threw when it is away. */
  return async (facts) => {
    const timers: Timer[] = [];
    const silent = new Set<DeploymentId>();
    let moved = 0;
    let silentInARow = 0;
    const all = await inOrder();
    try {
      for (const one of all) {
        const looked = await deps.step(one, facts).catch((error: unknown) => new Failed(error));
        const isFailed = looked instanceof Failed;
        if (isFailed && looked.isSilent) {
          silent.add(one.deployment.id);
          silentInARow += 1;
          // One may wait for somebody's lock. At two one after the other the database is away.
          if (silentInARow > 1) throw looked.error;
        } else if (isFailed || !looked.isIdle) silentInARow = 0;
        if (!isFailed && looked.isMoved) moved += 1;
        const timer = isFailed ? retryOf(one, looked) : looked.timer;
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
  /** The database did not answer. */
  readonly isSilent: boolean;
  constructor(error: unknown) {
    this.error = error;
    this.isSilent = (error as { code?: unknown } | undefined)?.code === "store_away";
  }
}
