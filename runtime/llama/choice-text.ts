// Text of one choice that can be sent: complete characters that start no stop sequence, each with the
// log-probabilities of the tokens it came from.
import type { Piece, TokenLogprob } from "../server/text-engine.ts";
import { StopScanner } from "./stop-scanner.ts";

type Detokenize = (tokens: readonly number[], previous: readonly number[]) => string;

const replacement = "\uFFFD";
/** A character has at most four bytes; more tokens than that without one are truly broken bytes. */
const maxHeld = 4;
const contextTokens = 3;

/** Tokens -> text. A character may span several tokens: bytes that do not end a character yet are held back. */
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

export type ScoredToken = Omit<TokenLogprob, "offset">;

export class ChoiceText {
  readonly #decoder: PieceDecoder;
  readonly #scanner: StopScanner;
  /** Characters decoded, and of them those that left. */
  #decoded = 0;
  #left = 0;
  #scores: TokenLogprob[] = [];

  constructor(decoder: PieceDecoder, stops: readonly string[]) {
    this.#decoder = decoder;
    this.#scanner = new StopScanner(stops);
  }

  push(token: number, score: ScoredToken | undefined): { readonly piece: Piece; readonly stop: string | undefined } {
    if (score) this.#scores.push({ ...score, offset: this.#decoded });
    return this.#scan(this.#decoder.push(token));
  }

  /** The rest, when the choice ended without a stop sequence. */
  end(): Piece {
    const last = this.#scan(this.#decoder.flush());
    const text = last.piece.text + (last.stop === undefined ? this.#scanner.flush() : "");
    const logprobs = [...last.piece.logprobs, ...this.#scores];
    this.#scores = [];
    return { text, logprobs };
  }

  #scan(decoded: string): { readonly piece: Piece; readonly stop: string | undefined } {
    this.#decoded += decoded.length;
    const { text, stop } = this.#scanner.push(decoded);
    this.#left += text.length;
    const count = this.#scores.findIndex((score) => score.offset >= this.#left);
    const logprobs = this.#scores.splice(0, count < 0 ? this.#scores.length : count);
    // Tokens of the stop sequence itself are not part of the answer.
    if (stop !== undefined) this.#scores = [];
    return { piece: { text, logprobs }, stop };
  }
}
