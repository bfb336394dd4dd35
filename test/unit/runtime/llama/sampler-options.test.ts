import type { LlamaModel } from "node-llama-cpp";
import { expect, it } from "vitest";
import { type SamplerState, samplerOptions } from "../../../../runtime/llama/sampler-options.ts";

it("keeps a top_k above 32 bits from becoming a small one", () => {
  const sampling = { temperature: 1, topP: 1, minP: 0, presencePenalty: 0, frequencyPenalty: 0, repetitionPenalty: 1 };
  const state = { prompt: [], generated: [], seed: 1, grammar: undefined } as unknown as SamplerState;
  const topKOf = (topK: number) => samplerOptions({ ...sampling, topK, seed: 1 }, state, {} as LlamaModel).topK;
  expect([topKOf(5), topKOf(2 ** 32 + 1), topKOf(0)]).toEqual([5, 2 ** 31 - 1, null]);
});
