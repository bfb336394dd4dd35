// A format that nothing fits: the native sampler fails in the middle of a batch.
import type { LlamaContext, LlamaModel } from "node-llama-cpp";
import { expect, it } from "vitest";
import { type ChoiceContext, generateChoice } from "../../../../runtime/llama/generate-choice.ts";
import type { LlamaSequence } from "../../../../runtime/llama/llama-sequence.ts";
import { reportRawLogprobs } from "../../../../runtime/llama/raw-logprobs.ts";
import { PromptPace, Rounds } from "../../../../runtime/llama/rounds.ts";
import type { GenerationJob } from "../../../../runtime/server/text-engine.ts";

it("is reported as no token, because the library does not await the sampler's failure", async () => {
  const _ctx = { sampleToken: (..._: unknown[]) => Promise.reject(new Error("empty grammar stack")) };
  reportRawLogprobs({ _ctx } as unknown as LlamaContext);
  await expect(_ctx.sampleToken(0, {})).resolves.toBe(-1);
  await expect(_ctx.sampleToken(0, {}, true)).resolves.toEqual([-1]);
});

it("is refused with a sentence, and what fails without a format stays a failure", async () => {
  const failing = {
    place: 0,
    reuse: async () => 0,
    inner: {
      evaluateWithMetadata: async function* () {
        yield* [];
        throw new Error("Failed to sample next token");
      },
    },
  } as unknown as LlamaSequence;
  const context = {
    model: {} as LlamaModel,
    rounds: new Rounds(() => {}),
    pace: new PromptPace(512),
    maxTokens: 1,
    sampler: { seed: 1, grammar: undefined, newBias: () => ({}) },
    onToken: () => {},
  } as unknown as ChoiceContext;
  const sampling = { presencePenalty: 0, frequencyPenalty: 0, repetitionPenalty: 1 };
  const run = (constraint: object | undefined) => {
    const job = { prompt: [1], stops: [], stopTokenIds: [], sampling, constraint } as unknown as GenerationJob;
    const usage = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0 };
    const sink = { piece: () => undefined, finish: () => {} };
    return generateChoice(context, job, 0, failing, sink, usage, new AbortController().signal);
  };
  await expect(run({ gbnf: "" })).rejects.toMatchObject({
    code: "constraint",
    message: expect.stringMatching(/no output.*match/),
  });
  await expect(run(undefined)).rejects.toThrow("Failed to sample next token");
});
