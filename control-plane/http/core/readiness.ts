import { repeat } from "../../../proto/repeat.ts";

export type Readiness = { readonly isReady: true } | { readonly isReady: false; readonly reasons: readonly string[] };

/** Life of a budget slice without its database. */
const slicesLastMs = 30_000;
const everyMs = 1_000;

/**
 * Ready: everything in memory is loaded, and the last reply of the database is so recent that held slices still admit requests.
 */
export function createReadiness(deps: {
  /** Bounded; throws when the database is unavailable. */
  readonly ping: () => Promise<unknown>;
  /** Data that must be in memory, by name. */
  readonly loaded: Readonly<Record<string, () => boolean>>;
  readonly monotonicMs?: () => number;
}) {
  const monotonicMs = deps.monotonicMs ?? (() => performance.now());
  let answeredMs = Number.NEGATIVE_INFINITY;
  let isLeaving = false;

  async function check(): Promise<void> {
    try {
      await deps.ping();
      answeredMs = monotonicMs();
    } catch {
      // Only the time without a reply counts; the first feature that needs the database logs the cause.
    }
  }

  return {
    /** Pings the database once. */
    check,
    /** From now on not ready, so that proxies send nothing new. */
    leave(): void {
      isLeaving = true;
    },
    /** From memory. */
    read(): Readiness {
      const reasons = Object.entries(deps.loaded)
        .filter(([, isLoaded]) => !isLoaded())
        .map(([name]) => `${name} is not loaded yet`);
      if (isLeaving) reasons.push("it shuts down");
      if (monotonicMs() - answeredMs > slicesLastMs) reasons.push("the database cannot be reached");
      return reasons.length === 0 ? { isReady: true } : { isReady: false, reasons };
    },
    run: (signal: AbortSignal) => repeat(everyMs, signal, check),
  };
}

export type ReadinessWatch = ReturnType<typeof createReadiness>;
