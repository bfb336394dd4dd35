// Control-plane time on this host's monotonic clock: a step of the wall clock here changes neither tickets nor leases.

export type ControlClock = ReturnType<typeof createControlClock>;

const kept = 8;
const maxToleranceMs = 30_000;
/** Maximum difference of two replies beyond their round trips: clocks drift and are slewed. */
const driftMs = 1_000;

export function createControlClock(monotonicMs: () => number, wallMs: () => number) {
  let samples: readonly { readonly offsetMs: number; readonly roundTripMs: number }[] = [];
  // The reply with the shortest round trip is the most exact.
  const best = () => samples.reduce((a, b) => (b.roundTripMs < a.roundTripMs ? b : a));
  const nowMs = () => Math.round(samples.length === 0 ? wallMs() : monotonicMs() + best().offsetMs);
  let toleranceMs = 0;
  return {
    /** Unix ms; this host's wall clock until a control plane has replied. */
    nowMs,
    /** Sets by how much the clocks of control planes may differ: tickets of one are signed in its own time. */
    tolerate(ms: number) {
      toleranceMs = Math.min(ms, maxToleranceMs);
    },
    /** Time to compare the expiry of tickets with: the control plane's, less the tolerance. */
    ticketTimeMs: () => nowMs() - toleranceMs,
    /** Adds one reply: its time, and when the request was sent and the reply received (monotonic ms). */
    addSample(controlTimeMs: number, askedMs: number, cameMs: number) {
      const roundTripMs = Math.max(0, cameMs - askedMs);
      const sample = { offsetMs: controlTimeMs + roundTripMs / 2 - cameMs, roundTripMs };
      // The difference exceeds any round trip: the control plane's clock was stepped. Earlier samples would make this host
      // refuse its tickets until the last fast one expires.
      const known = samples.length === 0 ? sample : best();
      const slackMs = (known.roundTripMs + roundTripMs) / 2 + driftMs;
      const isStepped = Math.abs(sample.offsetMs - known.offsetMs) > slackMs;
      samples = isStepped ? [sample] : [...samples, sample].slice(-kept);
    },
    get skewSeconds() {
      return samples.length === 0 ? 0 : (wallMs() - nowMs()) / 1000;
    },
    get roundTripSeconds() {
      return (samples.at(-1)?.roundTripMs ?? 0) / 1000;
    },
  };
}
