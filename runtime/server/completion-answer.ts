// Text completions on the wire.
import type { AnswerFormat, TokenNames } from "./answer-format.ts";
import type { FinishReason, Piece, TokenLogprob } from "./text-engine.ts";

interface ChoiceState {
  text: string;
  logprobs: TokenLogprob[];
  reason: FinishReason | null;
  hasEcho: boolean;
}

export interface CompletionAnswerOptions {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly n: number;
  /** Text that every choice begins with. */
  readonly echo: string | undefined;
  readonly hasLogprobs: boolean;
  readonly names: TokenNames;
}

export class CompletionAnswer implements AnswerFormat {
  readonly frameHead: Readonly<Record<string, unknown>>;
  readonly wholeHead: Readonly<Record<string, unknown>>;
  readonly wholeTail = {};
  readonly #options: CompletionAnswerOptions;
  readonly #choices: readonly ChoiceState[];
  readonly #promptScores = new Map<number, readonly TokenLogprob[]>();

  constructor(options: CompletionAnswerOptions) {
    const { id, created, model, n } = options;
    this.#options = options;
    this.frameHead = { id, object: "text_completion", created, model };
    this.wholeHead = this.frameHead;
    this.#choices = Array.from({ length: n }, () => ({ text: "", logprobs: [], reason: null, hasEcho: false }));
  }

  prompt(choice: number, scores: readonly TokenLogprob[]): void {
    this.#promptScores.set(choice, scores);
  }

  piece(index: number, piece: Piece): readonly unknown[] {
    const choice = this.#choices[index] as ChoiceState;
    const shift = this.#options.echo?.length ?? 0;
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
    const { echo } = this.#options;
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
    const { names } = this.#options;
    return {
      tokens: scores.map((score) => names.name(score.token)),
      token_logprobs: scores.map((score) => score.logprob ?? null),
      top_logprobs: scores.map((score) =>
        score.logprob === undefined
          ? null
          : Object.fromEntries([
              ...score.top.map((entry) => [names.name(entry.token), entry.logprob]),
              [names.name(score.token), score.logprob],
            ]),
      ),
      text_offset: scores.map((score) => score.offset),
    };
  }
}
