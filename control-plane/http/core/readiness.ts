import { setTimeout as wait } from "node:timers/promises";

export type Readiness = { readonly isReady: true } | { readonly isReady: false; readonly reasons: readonly string[] };

export interface ReadinessWatch {
  /** From memory. */
  read(): Readiness;
  /** Looks at the database once. */
  look(): Promise<void>;
  run(signal: AbortSignal): Promise<void>;
}

/** As long as a budget slice lives without its database. */
const slicesLastMs = 30_000;
const everyMs = 1_000;

/**
 * Ready: everything in memory is loaded, and the database answers or was heard so lately that held slices still admit.
 */
export function createReadiness(deps: {
  /** Bounded; throws when the database is away. */
  readonly ping: () => Promise<unknown>;
  /** What must be in memory, by name. */
  readonly loaded: Readonly<Record<string, () => boolean>>;
  readonly monotonicMs?: () => number;
}): ReadinessWatch {
  const monotonicMs = deps.monotonicMs ?? (() => performance.now());
  let answeredMs = Number.NEGATIVE_INFINITY;

  async function look(): Promise<void> {
    try {
      await deps.ping();
      answeredMs = monotonicMs();
    } catch {
      // Its silence is what counts; the first feature that needs it logs why.
    }
  }

  return {
    look,
    read() {
      const reasons = Object.entries(deps.loaded)
        .filter(([, isLoaded]) => !isLoaded())
        .map(([name]) => `${name} is not loaded yet`);
      if (monotonicMs() - answeredMs > slicesLastMs) reasons.push("the database cannot be reached");
      return reasons.length === 0 ? { isReady: true } : { isReady: false, reasons };
    },
    async run(signal) {
      while (!signal.aborted) {
        await look();
        await wait(everyMs, undefined, { signal }).catch(() => {});
      }
    },
  };
}
