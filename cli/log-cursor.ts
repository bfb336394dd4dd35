// Position in a followed log: lines already shown, start of the next page, and whether to wait before reading it.
export type Entry = readonly [at: string, line: string];

/** Maximum number of lines per page. */
export const maxLines = 1000;

export class LogCursor {
  /** Unix seconds. Undefined: the newest lines. */
  from: string | undefined;
  /** All current lines were read. */
  isAtEnd = false;
  #seen: string | undefined;
  /** Lines shown with that timestamp, and how often. */
  #shown = new Map<string, number>();

  constructor(from: string | undefined) {
    this.from = from;
  }

  /** Returns the new lines of a page. A range includes its start, so a page repeats the lines of the last timestamp. */
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
    this.isAtEnd = fresh.length === 0 || found.length < maxLines;
    const last = fresh.at(-1)?.[0];
    if (last !== undefined) {
      if (last !== seen) this.#shown.clear();
      for (const [at, line] of fresh) if (at === last) this.#shown.set(line, (this.#shown.get(line) ?? 0) + 1);
      this.from = this.#seen = last;
    }
    // The page holds one timestamp only and would repeat forever: skip the other lines of that timestamp.
    else if (seen !== undefined && found.length >= maxLines) this.from = after(seen);
    return fresh;
  }
}

/** Adds a nanosecond. */
function after(at: string): string {
  const [seconds = "0", decimals = ""] = at.split(".");
  const nanos = BigInt(seconds) * 1_000_000_000n + BigInt(decimals.padEnd(9, "0")) + 1n;
  return `${nanos / 1_000_000_000n}.${String(nanos % 1_000_000_000n).padStart(9, "0")}`;
}
