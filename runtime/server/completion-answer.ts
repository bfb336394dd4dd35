// Text completions on the wire.
import type { AnswerFormat, AnswerOptions } from "./answer-format.ts";
import type { FinishReason, Piece, TokenLogprob } from "./text-engine.ts";

interface ChoiceState {
  text: string;
  logprobs: TokenLogprob[];
  reason: FinishReason | null;
  hasEcho: boolean;
}

export class CompletionAnswer implements AnswerFormat {
  readonly objects = { frame: "text_completion", whole: "text_completion" };
  readonly #options: AnswerOptions;
  readonly #text: string | undefined;
  readonly #choices: readonly ChoiceState[];
  readonly #promptScores = new Map<number, readonly TokenLogprob[]>();

  /** `echo`: text that every choice begins with. */
  constructor(options: AnswerOptions, echo: string | undefined) {
    this.#options = options;
    this.#text = echo;
    this.#choices = Array.from({ length: options.choices }, () => ({
      text: "",
      logprobs: [],
      reason: null,
      hasEcho: false,
    }));
  }

  prompt(choice: number, scores: readonly TokenLogprob[]): void {
    this.#promptScores.set(choice, scores);
  }

  piece(index: number, piece: Piece): readonly unknown[] {
    const choice = this.#choices[index] as ChoiceState;
    const shift = this.#text?.length ?? 0;
    const logprobs = piece.logprobs.map((score) => ({ ...score, offset: score.offset + shift }));
    const frames = this.#echo(index, choice);
    choice.text += piece.text;
    choice.logprobs.push(...logprobs);
    return [...frames, this.#entry(index, piece.text, logprobs, null)];
  }

  finish(index: number, reason: FinishReason): readonly unknown[] {
    const choice = this.#choices[index] as ChoiceState;
    const frames = this.#echo(index, choice);
    choice.reason = reason;
    return [...frames, this.#entry(index, "", [], reason)];
  }

  whole(): readonly unknown[] {
    return this.#choices.map((choice, index) => this.#entry(index, choice.text, choice.logprobs, choice.reason));
  }

  /** The prompt as a frame of its own, before the first of a choice. */
  #echo(index: number, choice: ChoiceState): readonly unknown[] {
    const echo = this.#text;
    if (echo === undefined || choice.hasEcho) return [];
    choice.hasEcho = true;
    const scores = this.#promptScores.get(index) ?? [];
    choice.text = echo;
    choice.logprobs.push(...scores);
    return [this.#entry(index, echo, scores, null)];
  }

  #entry(index: number, text: string, scores: readonly TokenLogprob[], reason: FinishReason | null) {
    const logprobs =
      this.#options.hasLogprobs && (scores.length > 0 || reason === null) ? this.#logprobs(scores) : null;
    return { index, text, logprobs, finish_reason: reason };
  }

  #logprobs(scores: readonly TokenLogprob[]) {
    const { nameOf } = this.#options;
    return {
      tokens: scores.map((score) => nameOf(score.token)),
      token_logprobs: scores.map((score) => score.logprob ?? null),
      top_logprobs: scores.map((score) =>
        score.logprob === undefined
          ? null
          : Object.fromEntries([
              ...score.top.map((entry) => [nameOf(entry.token), entry.logprob]),
              [nameOf(score.token), score.logprob],
            ]),
      ),
      text_offset: scores.map((score) => score.offset),
    };
  }
}
