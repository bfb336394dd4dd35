// Text of one choice that can be sent: complete characters that start no stop sequence, each with the
// log-probabilities of the tokens it came from.
import type { Piece, TokenLogprob } from "../server/text-engine.ts";
import type { PieceDecoder } from "./piece-decoder.ts";
import { StopScanner } from "./stop-scanner.ts";

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
