import { steadyTime } from "../../proto/steady-time.ts";

/** Leases end on the monotonic clock: a step of the wall clock changes neither bills nor leases. */
export interface Clock {
  /** Milliseconds since any fixed point; never goes back. */
  monotonicMs(): number;
  unixMs(): number;
}

export const systemClock: Clock = { monotonicMs: () => performance.now(), unixMs: steadyTime.nowMs };
