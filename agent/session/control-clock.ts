// Control-plane time on this host's monotonic clock: a step of the wall clock here changes neither tickets nor leases.

export interface ControlClock {
  /** Unix ms; this host's own wall clock until a control plane was heard. */
  nowMs(): number;
  /** One answer: what it said, when it was asked and when it came (monotonic ms). */
  heard(controlTimeMs: number, askedMs: number, cameMs: number): void;
  readonly skewSeconds: number;
  readonly roundTripSeconds: number;
}

const kept = 8;
/** What two answers may differ by beyond their times on the way: clocks drift and are slewed. */
const driftMs = 1_000;

export function createControlClock(monotonicMs: () => number, wallMs: () => number): ControlClock {
  let samples: readonly { readonly offsetMs: number; readonly roundTripMs: number }[] = [];
  // The quickest answer knows best: half of a slow one's time may lie on either way.
  const best = () => samples.reduce((a, b) => (b.roundTripMs < a.roundTripMs ? b : a));
  const nowMs = () => Math.round(samples.length === 0 ? wallMs() : monotonicMs() + best().offsetMs);
  return {
    nowMs,
    heard(controlTimeMs, askedMs, cameMs) {
      const roundTripMs = Math.max(0, cameMs - askedMs);
      const sample = { offsetMs: controlTimeMs + roundTripMs / 2 - cameMs, roundTripMs };
      // Further off than any way explains: the control plane's clock was stepped. What was known is of no use, and would
      // refuse its tickets until the last quick answer of before is forgotten.
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
