// Text that arrives in parts, and the pieces of it that are spoken: the n-th piece is due when as many characters wait as the n-th
// entry of the schedule; the last entry repeats. Pure. INVARIANT: a part costs as much as its own length, however much text waits.

export const defaultSchedule: readonly number[] = [120, 160, 250, 290];

const sentenceMarks: ReadonlySet<string> = new Set(".!?…。！？");
/** May follow such a mark in its sentence. */
const closers: ReadonlySet<string> = new Set("\"'”’)]");
const space = /\s/;
const sayable = /[\p{L}\p{N}]/u;

export class TextPieces {
  #text = "";
  #count = 0;
  /** Positions after the last sentence and after the last word; 0: none. */
  #sentenceEnd = 0;
  #wordEnd = 0;
  /** The last character ends a sentence if a space follows. */
  #isAfterMark = false;
  /** No character before this position can be spoken. */
  #unsayable = 0;
  readonly #schedule: readonly number[];

  constructor(schedule: readonly number[] = defaultSchedule) {
    this.#schedule = schedule;
  }

  get length(): number {
    return this.#text.length;
  }

  add(text: string): void {
    const added = this.#text === "" ? text.trimStart() : text;
    this.#findEnds(added);
    this.#text += added;
  }

  /** Returns the pieces that are due. */
  takeDue(): readonly string[] {
    const pieces: string[] = [];
    while (this.#text.length >= this.#due()) {
      const piece = this.#takeUpTo(this.#lastEnd());
      if (piece === undefined) break;
      pieces.push(piece);
    }
    return pieces;
  }

  /** Returns all complete words if at least `minChars` wait. */
  takeWords(minChars: number): readonly string[] {
    const piece = this.#text.length >= minChars ? this.#takeUpTo(this.#lastEnd()) : undefined;
    return piece === undefined ? [] : [piece];
  }

  /** Returns the whole text that waits. Text without a letter or digit cannot be spoken and is dropped. */
  takeAll(): readonly string[] {
    const piece = this.#takeUpTo(this.#text.length);
    this.#keep("");
    return piece === undefined ? [] : [piece];
  }

  #due(): number {
    return this.#schedule[Math.min(this.#count, this.#schedule.length - 1)] as number;
  }

  #lastEnd(): number {
    return this.#sentenceEnd || this.#wordEnd;
  }

  #takeUpTo(end: number): string | undefined {
    // A character of two code units may be divided between two parts.
    const from = Math.max(0, this.#unsayable - 1);
    if (end <= from) return undefined;
    if (!sayable.test(this.#text.slice(from, end))) {
      this.#unsayable = Math.max(this.#unsayable, end);
      return undefined;
    }
    const piece = this.#text.slice(0, end).trim();
    this.#keep(this.#text.slice(end).trimStart());
    this.#count += 1;
    return piece;
  }

  #keep(text: string): void {
    this.#text = "";
    this.#sentenceEnd = 0;
    this.#wordEnd = 0;
    this.#isAfterMark = false;
    this.#unsayable = 0;
    this.#findEnds(text);
    this.#text = text;
  }

  /** `added`: text that follows what waits. */
  #findEnds(added: string): void {
    for (let i = 0; i < added.length; i += 1) {
      const char = added[i] as string;
      if (space.test(char)) {
        this.#wordEnd = this.#text.length + i + 1;
        if (this.#isAfterMark) this.#sentenceEnd = this.#wordEnd;
        this.#isAfterMark = false;
      } else if (!closers.has(char)) this.#isAfterMark = sentenceMarks.has(char);
    }
  }
}
