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

export function createControlClock(monotonicMs: () => number, wallMs: () => number): ControlClock {
  let samples: readonly { readonly offsetMs: number; readonly roundTripMs: number }[] = [];
  // The quickest answer knows best: half of a slow one's time may lie on either way.
  const best = () => samples.reduce((a, b) => (b.roundTripMs < a.roundTripMs ? b : a));
  const nowMs = () => Math.round(samples.length === 0 ? wallMs() : monotonicMs() + best().offsetMs);
  return {
    nowMs,
    heard(controlTimeMs, askedMs, cameMs) {
      const roundTripMs = Math.max(0, cameMs - askedMs);
      samples = [...samples, { offsetMs: controlTimeMs + roundTripMs / 2 - cameMs, roundTripMs }].slice(-kept);
    },
    get skewSeconds() {
      return samples.length === 0 ? 0 : (wallMs() - nowMs()) / 1000;
    },
    get roundTripSeconds() {
      return (samples.at(-1)?.roundTripMs ?? 0) / 1000;
    },
  };
}
