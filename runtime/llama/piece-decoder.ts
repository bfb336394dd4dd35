// Tokens -> text. A character may span several tokens: bytes that do not end a character yet are held back.
export type Detokenize = (tokens: readonly number[], previous: readonly number[]) => string;

const replacement = "\uFFFD";
/** A character has at most four bytes; more tokens than that without one are truly broken bytes. */
const maxHeld = 4;
const contextTokens = 3;

export class PieceDecoder {
  readonly #detokenize: Detokenize;
  #previous: number[];
  #held: number[] = [];

  constructor(detokenize: Detokenize, promptTail: readonly number[]) {
    this.#detokenize = detokenize;
    this.#previous = promptTail.slice(-contextTokens);
  }

  /** Text that became certain, possibly "". */
  push(token: number): string {
    this.#held.push(token);
    const text = this.#detokenize(this.#held, this.#previous);
    if (text.endsWith(replacement) && this.#held.length < maxHeld) return "";
    return this.#take(text);
  }

  /** Returns the rest when no token follows: incomplete bytes as replacement characters. */
  flush(): string {
    return this.#held.length === 0 ? "" : this.#take(this.#detokenize(this.#held, this.#previous));
  }

  #take(text: string): string {
    this.#previous = [...this.#previous, ...this.#held].slice(-contextTokens);
    this.#held = [];
    return text;
  }
}
