// Differences between completions and chat answers. A format keeps each choice's state; the same calls make frames of a
// stream and the choices of a complete answer.
import { randomBytes } from "node:crypto";
import { unixSeconds } from "../../proto/unix-seconds.ts";
import type { FinishReason, Piece, TextEngine, TokenLogprob } from "./text-engine.ts";

export interface AnswerFormat {
  /** `object` of a frame and of a complete answer. */
  readonly objects: { readonly frame: string; readonly whole: string };
  /** After usage in a complete answer. */
  readonly wholeTail?: object;
  /** Tokens so far that were reasoning. */
  readonly reasoningTokens?: number;
  prompt?(choice: number, scores: readonly TokenLogprob[]): void;
  /** Entries of `choices`, one frame each. */
  piece(choice: number, piece: Piece): readonly unknown[];
  finish(choice: number, reason: FinishReason, stop?: string): readonly unknown[];
  /** `choices` of the complete answer. */
  whole(): readonly unknown[];
}

/** Properties of a request that both formats use. */
export interface AnswerOptions {
  readonly choices: number;
  readonly hasLogprobs: boolean;
  readonly nameOf: (token: number) => string;
}

/** `return_tokens_as_token_ids` shows ids in the place of texts. */
export function answerOptions(
  engine: TextEngine,
  request: { readonly choices: number; readonly topLogprobs: number | undefined; readonly tokensAsIds: boolean },
): AnswerOptions {
  const nameOf = (token: number) => (request.tokensAsIds ? `token_id:${token}` : engine.tokenText(token));
  return { choices: request.choices, hasLogprobs: request.topLogprobs !== undefined, nameOf };
}

/** First fields of every frame, or of the complete answer. */
export function answerHead(prefix: string, model: string) {
  const [id, created] = [`${prefix}-${randomBytes(12).toString("hex")}`, unixSeconds(Date.now())];
  return (object: string) => ({ id, object, created, model });
}
