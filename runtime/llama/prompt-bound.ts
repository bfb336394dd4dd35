// Prompts that cannot fit are refused before all of them is tokenised: on the thread that serves all requests, 9 MiB would
// take many seconds. Other requests run in between.
import { setImmediate as nextTurn } from "node:timers/promises";
import { FairTurns } from "../batch/fair-turns.ts";
import { EngineRefusal } from "../server/text-engine.ts";

export interface PromptPart {
  readonly text: string;
  /** Control tokens in it are what the template wrote. */
  readonly hasControl: boolean;
}

export interface TextBound {
  readonly maxTokens: number;
  /** Maximum characters (UTF-16) of one token. */
  readonly widestToken: number;
}

const pieceLength = 16_384;
/** A text cut into pieces has some more tokens than the whole, never twice as many. */
const slack = 2;
/** Fixed cost of a call for a part, in characters. */
const perPart = 64;
/** Always allowed length: word tokenizers make one token of a long unknown word, and drop white space. */
const minWidth = 64;

/** Long texts that may fit are tokenised one at a time; other requests run in between. */
const longTexts = new FairTurns();

function inTurn<T>(work: () => T): Promise<T> {
  return longTexts.run(async () => {
    await nextTurn();
    return work();
  });
}

/** `vocabulary` as its file spells it: a byte or a character is one character there, or more. */
export function widestToken(vocabulary: Iterable<string>): number {
  let widest = minWidth;
  for (const { length } of vocabulary) if (length > widest) widest = length;
  return widest;
}

/** Returns true if a text certainly has more tokens than allowed; a short one is never read. */
export function isTooLong(text: string, bound: TextBound, countOf: (piece: string) => number): boolean {
  const pieces = overlong(text, bound, countOf);
  for (;;) {
    const { done, value } = pieces.next();
    if (done) return value;
  }
}

export async function isTooLongInTurns(
  text: string,
  bound: TextBound,
  countOf: (piece: string) => number,
): Promise<boolean> {
  const pieces = overlong(text, bound, countOf);
  for (;;) {
    const { done, value } = pieces.next();
    if (done) return value;
    await nextTurn();
  }
}

function* overlong(
  text: string,
  { maxTokens, widestToken: width }: TextBound,
  countOf: (piece: string) => number,
): Generator<void, boolean, void> {
  if (text.length > maxTokens * width) return true;
  if (text.length <= pieceLength) return false;
  let count = 0;
  for (let at = 0; at < text.length; at += pieceLength) {
    count += countOf(text.slice(at, at + pieceLength));
    if (count > maxTokens * slack) return true;
    yield;
  }
  return false;
}

/** Tokens of all parts. Throws EngineRefusal("context_length") for far too many; `generate` refuses a few too many. */
export async function promptTokens(
  parts: readonly PromptPart[],
  bound: TextBound,
  tokensOf: (part: PromptPart, index: number) => readonly number[],
): Promise<readonly number[]> {
  const { maxTokens, widestToken: width } = bound;
  const length = parts.reduce((sum, { text }) => sum + text.length, 0);
  if (length > maxTokens * width) throw promptTooLong(maxTokens);
  const found: (readonly number[])[] = [];
  let [count, work] = [0, 0];
  for (const [index, part] of parts.entries()) {
    const countOf = (text: string) => tokensOf({ ...part, text }, index).length;
    if (await isTooLongInTurns(part.text, bound, countOf)) throw promptTooLong(maxTokens);
    const tokens = part.text.length > pieceLength ? await inTurn(() => tokensOf(part, index)) : tokensOf(part, index);
    found.push(tokens);
    count += tokens.length;
    if (count > maxTokens * slack) throw promptTooLong(maxTokens);
    work += part.text.length + perPart;
    if (work < pieceLength || index === parts.length - 1) continue;
    work = 0;
    await nextTurn();
  }
  return found.length === 1 ? (found[0] as readonly number[]) : found.flat();
}

export function promptTooLong(contextLength: number): EngineRefusal {
  return new EngineRefusal(
    "context_length",
    `this model's context is ${contextLength} tokens, but the prompt has more than ${contextLength}; shorten it`,
  );
}
