// Speculative decoding without a second model: what followed an earlier occurrence of the last few tokens is
// guessed to follow again, and checked in the same step that makes the next token. Worth it where answers repeat their input.
import { type LlamaContextSequence, type Token, TokenPredictor } from "node-llama-cpp";
import type { Predictor } from "./llama-sequence.ts";

/** Longer matches first: they are right more often. */
const patternLengths = [4, 3, 2];
const guesses = 5;
/** Tokens that are searched; going further back costs more than it finds. */
const window = 4096;

export class PromptLookup extends TokenPredictor implements Predictor {
  isActive = false;
  #tokens: Token[] = [];

  forget(): void {
    this.#tokens = [];
  }

  override reset({ stateTokens }: { stateTokens: Token[]; targetSequence: LlamaContextSequence }): void {
    this.#tokens = [...stateTokens];
  }

  override pushTokens(tokens: Token[]): void {
    this.#tokens.push(...tokens);
  }

  override predictTokens(): Token[] {
    return this.isActive ? guess(this.#tokens) : [];
  }
}

export function guess<T extends number>(tokens: readonly T[]): T[] {
  const from = Math.max(0, tokens.length - window);
  for (const length of patternLengths) {
    const patternAt = tokens.length - length;
    for (let at = patternAt - 1; at >= from; at--) {
      let matched = 0;
      while (matched < length && tokens[at + matched] === tokens[patternAt + matched]) matched++;
      if (matched === length) return tokens.slice(at + length, at + length + guesses);
    }
  }
  return [];
}
