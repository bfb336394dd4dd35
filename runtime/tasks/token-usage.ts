// Usage of a text task: in the answer, and for a client that disconnects before it.
import type { Encoded } from "../onnx/tokenizer.ts";
import type { TaskCall } from "../server/engine.ts";
import { tokensOf } from "./text-graph.ts";

export function countInputs(call: TaskCall, encoded: readonly Encoded[]): void {
  call.usage.inputTokens = tokensOf(encoded);
  call.usage.units = { items: encoded.length };
}

/** The keys of a native answer, then its tokens. */
export function nativeAnswer(call: TaskCall, result: Readonly<Record<string, unknown>>): string {
  call.onFirstToken();
  const { inputTokens, units } = call.usage;
  const usage = { prompt_tokens: inputTokens, total_tokens: inputTokens, items: units?.items ?? 1 };
  return JSON.stringify({ ...result, ...(inputTokens > 0 ? { input_tokens: inputTokens } : {}), usage });
}
