// Differences between completions and chat answers. A format keeps each choice's state; the same calls make frames of a
// stream and the choices of a complete answer.
import type { FinishReason, Piece, TokenLogprob } from "./text-engine.ts";

export interface AnswerFormat {
  /** id, object, created, model of a frame and of a complete answer. */
  readonly frameHead: Readonly<Record<string, unknown>>;
  readonly wholeHead: Readonly<Record<string, unknown>>;
  /** After usage in a complete answer. */
  readonly wholeTail: Readonly<Record<string, unknown>>;
  /** Tokens so far that were reasoning. */
  readonly reasoningTokens?: number;
  prompt?(choice: number, scores: readonly TokenLogprob[]): void;
  /** Entries of `choices`, one frame each. */
  piece(choice: number, piece: Piece): readonly unknown[];
  finish(choice: number, reason: FinishReason): readonly unknown[];
  /** `choices` of the complete answer. */
  whole(): readonly unknown[];
}

export interface TokenNames {
  name(token: number): string;
}

/** `return_tokens_as_token_ids` shows ids in the place of texts. */
export function tokenNames(textOf: (token: number) => string, asIds: boolean): TokenNames {
  return { name: asIds ? (token) => `token_id:${token}` : textOf };
}
