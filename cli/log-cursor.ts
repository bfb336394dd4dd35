// What of a log was seen, where the next answer begins, and whether to wait before it is asked for.
export type Entry = readonly [at: string, line: string];

/** Of one answer. */
export const mostLines = 1000;

export class LogCursor {
  /** Unix seconds; undefined: the last lines. */
  from: string | undefined;
  /** Nothing more is there for now. */
  isAtEnd = false;
  #seen: string | undefined;

  constructor(from: string | undefined) {
    this.from = from;
  }

  /** What was not seen yet. The start of a range is part of it, so the last line seen comes again. */
  take(found: readonly Entry[]): readonly Entry[] {
    const seen = this.#seen;
    const fresh = found.filter(([at]) => seen === undefined || at > seen);
    this.isAtEnd = fresh.length === 0 || found.length < mostLines;
    const last = fresh.at(-1)?.[0];
    if (last !== undefined) this.from = this.#seen = last;
    // A whole answer of one millisecond, which would come again for ever: what else it holds is left behind.
    else if (seen !== undefined && found.length >= mostLines) this.from = afterMillisecondOf(seen);
    return fresh;
  }
}

/** In the middle of the next one: the server rounds down, and decimals are not exact. */
const afterMillisecondOf = (at: string): string => ((Math.floor(Number(at) * 1000 + 0.01) + 1.5) / 1000).toFixed(4);
