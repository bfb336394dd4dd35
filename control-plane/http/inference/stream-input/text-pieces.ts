// Text that arrives in parts, and the pieces of it that are spoken: the n-th piece is due when as many characters wait as the n-th
// entry of the schedule; the last entry repeats. Pure.

export const defaultSchedule: readonly number[] = [120, 160, 250, 290];

/** Ends of sentences, and of parts of them. */
const sentenceEnd = /[.!?…。！？]["'”’)\]]*\s/g;
const wordEnd = /\s/g;
const sayable = /[\p{L}\p{N}]/u;

export class TextPieces {
  #text = "";
  #count = 0;
  readonly #schedule: readonly number[];

  constructor(schedule: readonly number[] = defaultSchedule) {
    this.#schedule = schedule;
  }

  get length(): number {
    return this.#text.length;
  }

  add(text: string): void {
    this.#text = this.#text === "" ? text.trimStart() : this.#text + text;
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
    this.#text = "";
    return piece === undefined ? [] : [piece];
  }

  #due(): number {
    return this.#schedule[Math.min(this.#count, this.#schedule.length - 1)] as number;
  }

  /** Position after the last sentence, otherwise after the last word. */
  #lastEnd(): number {
    const after = (pattern: RegExp) =>
      [...this.#text.matchAll(pattern)].reduce((_, match) => match.index + match[0].length, 0);
    return after(sentenceEnd) || after(wordEnd);
  }

  #takeUpTo(end: number): string | undefined {
    const piece = this.#text.slice(0, end).trim();
    if (!sayable.test(piece)) return undefined;
    this.#text = this.#text.slice(end).trimStart();
    this.#count += 1;
    return piece;
  }
}
