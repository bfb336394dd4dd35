// Tokens of one window -> segments in seconds of the whole recording, and how far the window was understood. Pure.
// A segment lies between two timestamps; if the window's end cuts one off, the next window starts at it.
export interface WindowTokens {
  readonly tokens: readonly number[];
  readonly starts: readonly number[] | undefined;
}

export interface TimedToken {
  readonly id: number;
  /** Seconds of the recording. */
  readonly start: number | undefined;
}

export interface TokenSegment {
  readonly start: number;
  readonly end: number;
  readonly tokens: readonly TimedToken[];
}

export interface WindowFacts {
  readonly timestampBegin: number;
  readonly tokenSeconds: number;
  /** Start of the window in the recording, in seconds. */
  readonly startsAt: number;
  readonly seconds: number;
}

export interface CutWindow {
  readonly segments: readonly TokenSegment[];
  /** Start of the next window, in seconds of the recording; always later than this one. */
  readonly nextAt: number;
}

export function cutSegments({ tokens, starts }: WindowTokens, facts: WindowFacts): CutWindow {
  const { timestampBegin, tokenSeconds, startsAt, seconds } = facts;
  const isTime = (index: number) => (tokens[index] ?? -1) >= timestampBegin;
  const timeAt = (index: number) =>
    startsAt + Math.min(seconds, ((tokens[index] as number) - timestampBegin) * tokenSeconds);
  const endsAt = startsAt + seconds;
  const segments: TokenSegment[] = [];
  let start = startsAt;
  let open: TimedToken[] = [];
  let lastPair: number | undefined;
  const close = (end: number) => {
    if (open.length > 0) segments.push({ start, end: Math.max(start, end), tokens: open });
    open = [];
  };
  for (let i = 0; i < tokens.length; i += 1) {
    if (!isTime(i)) {
      const at = starts?.[i];
      open.push({ id: tokens[i] as number, start: at === undefined ? undefined : startsAt + at });
      continue;
    }
    close(timeAt(i));
    start = timeAt(i);
    if (isTime(i + 1)) lastPair = start;
  }
  // Text after the last timestamp: cut off by the window's end, unless nothing shows where it could be taken up again.
  const isCutOff = open.length > 0 && lastPair !== undefined && lastPair > startsAt;
  if (isCutOff) return { segments, nextAt: lastPair as number };
  close(endsAt);
  return { segments, nextAt: endsAt };
}
