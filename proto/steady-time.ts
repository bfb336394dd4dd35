// Wall-clock time that ignores steps of the wall clock: read once, then advanced by the monotonic clock. A correction is
// spread over time, so that tickets, leases and sessions that compare two readings see the time that passed. The exception is
// a pause of the machine, which stops the monotonic clock: that time has passed, so it is added at once.

export interface SteadyTime {
  /** Unix milliseconds; never goes back. */
  nowMs(): number;
  /**
   * Sets the time to approach. The first call applies at once, later ones by at most 1 % of the time that passes. A time more
   * than 30 s ahead applies at once if the wall clock is within 5 s of it.
   */
  aim(unixMs: number): void;
}

const maxSlew = 0.01;
/** A longer lag is the effect of a pause, not of drift. */
const minPauseMs = 30_000;
/** Maximum distance of the wall clock from an aim that it confirms. */
const maxWallGapMs = 5_000;

export function createSteadyTime(monotonicMs: () => number, wallMs: () => number): SteadyTime {
  let offsetMs = wallMs() - monotonicMs();
  let targetMs = offsetMs;
  let isAimed = false;
  let slewedMs = monotonicMs();

  function slew(nowMs: number): void {
    const max = (nowMs - slewedMs) * maxSlew;
    slewedMs = nowMs;
    offsetMs += Math.max(-max, Math.min(max, targetMs - offsetMs));
  }

  return {
    nowMs() {
      const nowMs = monotonicMs();
      if (offsetMs === targetMs) slewedMs = nowMs;
      else slew(nowMs);
      return Math.round(nowMs + offsetMs);
    },
    aim(unixMs) {
      const nowMs = monotonicMs();
      slew(nowMs);
      targetMs = unixMs - nowMs;
      const wasPaused = targetMs - offsetMs > minPauseMs && Math.abs(wallMs() - unixMs) <= maxWallGapMs;
      if (!isAimed || wasPaused) offsetMs = targetMs;
      isAimed = true;
    },
  };
}

/** Time of this process. A control plane aims it at the database's clock, so that all control planes agree. */
export const steadyTime = createSteadyTime(() => performance.now(), Date.now);
