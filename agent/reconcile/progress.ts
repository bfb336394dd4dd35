// An engine may reply to health probes and still generate no tokens. Compares its counters from probe to probe; if they do not
// change, it receives a request for one token, and counts as frozen only without a reply. Pure.

/** Progress of one life: times of the last changes. Monotonic ms. */
export interface Pulse {
  readonly mark: string;
  readonly movedAtMs: number;
  /** Start of the current work; undefined while idle. */
  readonly busySinceMs: number | undefined;
  /** Time at which it last generated a requested token. */
  readonly answeredAtMs: number | undefined;
}

export interface Work {
  /** Requests that it should be working at. */
  readonly inFlight: number;
  /** Tokens of their prompts: a long prompt is read before the first token. */
  readonly promptTokens: number;
  /** Changes with every token and every request that ends. */
  readonly mark: string;
  readonly hasServed: boolean;
}

export interface WatchLimits {
  /** Longest time without a token while requests are in flight. */
  readonly stallMs: number;
  /** Additional time for each token of their prompts. */
  readonly perPromptTokenMs: number;
  readonly longestMs: number;
  /** Time without progress after which it receives a request for one token. */
  readonly idleMs: number;
}

// Assumes that every usable engine reads a prompt with at least 20 tokens a second.
export const watchLimits: WatchLimits = {
  stallMs: 60_000,
  perPromptTokenMs: 50,
  longestMs: 30 * 60_000,
  idleMs: 300_000,
};

export const newPulse = (nowMs: number): Pulse => ({
  mark: "",
  movedAtMs: nowMs,
  busySinceMs: undefined,
  answeredAtMs: undefined,
});

export function afterLook(pulse: Pulse, work: Work, nowMs: number): Pulse {
  const hasMoved = work.mark !== pulse.mark;
  return {
    ...pulse,
    mark: work.mark,
    movedAtMs: hasMoved ? nowMs : pulse.movedAtMs,
    busySinceMs: work.inFlight > 0 ? (pulse.busySinceMs ?? nowMs) : undefined,
  };
}

/** Returns the time without progress of an engine that must be probed with one token; otherwise undefined. `pulse`: as of this probe. */
export function silenceOf(pulse: Pulse, work: Work, nowMs: number, limits: WatchLimits): number | undefined {
  const { movedAtMs, busySinceMs, answeredAtMs } = pulse;
  // A ready engine has generated a token; so has one with running requests.
  if (answeredAtMs === undefined && !work.hasServed && work.inFlight === 0) return 0;
  const silentMs = nowMs - Math.max(movedAtMs, busySinceMs ?? 0, answeredAtMs ?? 0);
  const patienceMs = Math.min(limits.longestMs, limits.stallMs + work.promptTokens * limits.perPromptTokenMs);
  return silentMs > (work.inFlight > 0 ? patienceMs : limits.idleMs) ? silentMs : undefined;
}
