// Finds stop sequences in text that comes in pieces. Text that may be the beginning of one is held back, so nothing of a
// stop sequence ever leaves.
export interface Scanned {
  /** May leave now. */
  readonly text: string;
  /** Stop sequence that was found: `text` ends before it and nothing may follow. */
  readonly stop: string | undefined;
}

export class StopScanner {
  readonly #stops: readonly string[];
  #held = "";

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== "");
  }

  push(piece: string): Scanned {
    if (this.#stops.length === 0) return { text: piece, stop: undefined };
    const text = this.#held + piece;
    const found = this.#stops
      .map((stop) => ({ stop, at: text.indexOf(stop) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at);
    const [first] = found;
    if (first) {
      this.#held = "";
      return { text: text.slice(0, first.at), stop: first.stop };
    }
    const keep = Math.max(...this.#stops.map((stop) => overlap(text, stop)));
    this.#held = text.slice(text.length - keep);
    return { text: text.slice(0, text.length - keep), stop: undefined };
  }

  /** Returns the held text when no stop sequence followed. */
  flush(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }
}

/** Length of the longest proper beginning of `stop` with which `text` ends. */
export function overlap(text: string, stop: string): number {
  for (let length = Math.min(stop.length - 1, text.length); length > 0; length--)
    if (text.endsWith(stop.slice(0, length))) return length;
  return 0;
}
