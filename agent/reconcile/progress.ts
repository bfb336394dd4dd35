// An engine may answer its health page for ever and make no token any more. What moves is compared from probe to probe; what
// does not move is asked for one token, and only who does not give it is taken for frozen. Pure.

/** Of one life: when anything last moved. Monotonic ms. */
export interface Pulse {
  readonly mark: string;
  readonly movedAtMs: number;
  /** Since when there was always work; undefined while idle. */
  readonly busySinceMs: number | undefined;
  /** When it last gave the token it was asked for. */
  readonly answeredAtMs: number | undefined;
}

/** What an engine has to do and has done. */
export interface Work {
  /** Requests that it should be working at. */
  readonly inFlight: number;
  /** Tokens of their prompts: a long one is read before the first token comes. */
  readonly promptTokens: number;
  /** Changes with every token and every request that ends. */
  readonly mark: string;
  readonly hasServed: boolean;
}

export interface WatchLimits {
  /** Longest time without a token while requests are in flight. */
  readonly stallMs: number;
  /** More of it for each token of their prompts. */
  readonly perPromptTokenMs: number;
  readonly longestMs: number;
  /** Idle so long, it is asked whether it still can. */
  readonly idleMs: number;
}

// A prompt is read at 20 tokens a second or faster by anything worth running.
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

/** Undefined: nothing to ask. Else for how long nothing moved. `pulse` as of this look. */
export function silenceOf(pulse: Pulse, work: Work, nowMs: number, limits: WatchLimits): number | undefined {
  const { movedAtMs, busySinceMs, answeredAtMs } = pulse;
  // Ready means that it gave a token; one that others are using has shown it.
  if (answeredAtMs === undefined && !work.hasServed && work.inFlight === 0) return 0;
  const silentMs = nowMs - Math.max(movedAtMs, busySinceMs ?? 0, answeredAtMs ?? 0);
  const patienceMs = Math.min(limits.longestMs, limits.stallMs + work.promptTokens * limits.perPromptTokenMs);
  return silentMs > (work.inFlight > 0 ? patienceMs : limits.idleMs) ? silentMs : undefined;
}
