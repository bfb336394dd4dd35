// How much to hold for a request: an upper bound of its price from what is known before it runs. Pure.
import { ceilingOf, type NanoUsd, type TokenRates, type UnitCounts } from "../../proto/money.ts";

/** Tokens a chat template may add: per request and per message. */
const templateTokens = 64;
const templateTokensPerMessage = 16;

export interface RequestSize {
  /** UTF-8 bytes of prompt, messages and tools: a byte-level tokeniser never makes more tokens than bytes. */
  readonly promptBytes: number;
  /** 1 for a plain prompt. */
  readonly messages: number;
  /** Sequences. */
  readonly n: number;
  /** Output tokens per sequence. */
  readonly maxTokens: number;
}

export interface HoldSize {
  /** The least with which the request makes sense: its prompt and one token per sequence. */
  readonly floor: NanoUsd;
  readonly full: NanoUsd;
}

export function promptTokensBound(size: RequestSize): number {
  return size.promptBytes + templateTokens + templateTokensPerMessage * size.messages;
}

/** `units`: of a task other than text, which is held for whole or not at all. */
export function holdSize(size: RequestSize, rates: TokenRates, units?: UnitCounts): HoldSize {
  if (units) {
    const whole = ceilingOf(size.promptBytes, 0, rates, units);
    return { floor: whole, full: whole };
  }
  const prompt = promptTokensBound(size);
  return {
    floor: ceilingOf(prompt, size.n, rates),
    full: ceilingOf(prompt, size.n * size.maxTokens, rates),
  };
}

/** Output tokens per sequence that `amount` buys beside the prompt: 0 below the floor, never above `size.maxTokens`. */
export function affordableMaxTokens(amount: NanoUsd, size: RequestSize, rates: TokenRates): number {
  if (amount >= ceilingOf(promptTokensBound(size), size.n * size.maxTokens, rates)) return size.maxTokens;
  if (rates.output === 0n) return 0;
  const perMillionInput = ceilingOf(1_000_000, 0, rates);
  const left = amount * 1_000_000n - BigInt(promptTokensBound(size)) * perMillionInput;
  if (left < 0n) return 0;
  const tokens = left / (rates.output * BigInt(size.n));
  return tokens > BigInt(size.maxTokens) ? size.maxTokens : Number(tokens);
}
