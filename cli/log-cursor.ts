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
  /** Lines of that very moment which were shown, and how often. */
  #shown = new Map<string, number>();

  constructor(from: string | undefined) {
    this.from = from;
  }

  /** What was not seen yet. The start of a range is part of it, so what was seen of the last moment comes again. */
  take(found: readonly Entry[]): readonly Entry[] {
    const seen = this.#seen;
    const again = new Map(this.#shown);
    const fresh = found.filter(([at, line]) => {
      if (seen === undefined || at > seen) return true;
      if (at < seen) return false;
      const left = again.get(line) ?? 0;
      again.set(line, left - 1);
      return left <= 0;
    });
    this.isAtEnd = fresh.length === 0 || found.length < mostLines;
    const last = fresh.at(-1)?.[0];
    if (last !== undefined) {
      if (last !== seen) this.#shown.clear();
      for (const [at, line] of fresh) if (at === last) this.#shown.set(line, (this.#shown.get(line) ?? 0) + 1);
      this.from = this.#seen = last;
    }
    // A whole answer of one moment, which would come again for ever: what else it holds is left behind.
    else if (seen !== undefined && found.length >= mostLines) this.from = after(seen);
    return fresh;
  }
}

/** A nanosecond later. */
function after(at: string): string {
  const [seconds = "0", decimals = ""] = at.split(".");
  const nanos = BigInt(seconds) * 1_000_000_000n + BigInt(decimals.padEnd(9, "0")) + 1n;
  return `${nanos / 1_000_000_000n}.${String(nanos % 1_000_000_000n).padStart(9, "0")}`;
}
