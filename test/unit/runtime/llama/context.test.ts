import { describe, expect, it } from "vitest";
import { loadFailure } from "../../../../runtime/llama/load-failure.ts";
import { fitContext } from "../../../../runtime/llama/open-model.ts";
import { toLogprobs } from "../../../../runtime/llama/raw-logprobs.ts";
import { seedOf } from "../../../../runtime/llama/sampler-options.ts";

const request = {
  wanted: 0,
  trained: 8192,
  small: { contextSize: 512, bytes: 200 },
  large: { contextSize: 1536, bytes: 1224 },
  budgetBytes: Number.POSITIVE_INFINITY,
};

describe("the context length", () => {
  it("is the model's own where memory suffices, else what fits", () => {
    expect(fitContext(request)).toBe(8192);
    expect(fitContext({ ...request, budgetBytes: 1800 })).toBe(2048);
  });

  it("is refused, not shortened, when it was asked for and does not fit", () => {
    expect(fitContext({ ...request, wanted: 1000 })).toBe(1000);
    expect(() => fitContext({ ...request, wanted: 4000, budgetBytes: 1800 })).toThrow(/^out of memory:.*4000/);
    expect(() => fitContext({ ...request, budgetBytes: -500 })).toThrow(/^out of memory:/);
  });
});

describe("a failed load", () => {
  it.each([
    ["error loading model: unknown model architecture: 'foo'", "unsupported architecture"],
    ["alloc: failed to allocate CPU buffer", "out of memory"],
    ["tensor 'x' data is not within the file bounds, model is corrupted or incomplete", "damaged GGUF file"],
    ["something else", "model could not be loaded"],
  ])("begins with its cause: %s", (line, cause) => {
    expect(loadFailure(new Error("Failed to load model"), [line]).message.startsWith(`${cause}:`)).toBe(true);
  });
});

describe("sampling", () => {
  it("turns logits into log-probabilities of the whole vocabulary", () => {
    // Vocabulary of two with equal logits: the sum of exp(logit - highest) is 2.
    const [, a, , b] = toLogprobs([4, 3, 9, 3], 2) as [number, number, number, number];
    expect(a).toBeCloseTo(Math.log(0.5));
    expect(b).toBeCloseTo(Math.log(0.5));
  });

  it("gives every choice of a request its own seed and never the one that means random", () => {
    expect(seedOf(7, 0, Math.random)).toBe(7);
    expect(seedOf(7, 1, Math.random)).not.toBe(7);
    expect(seedOf(0xffff_ffff, 0, Math.random)).not.toBe(0xffff_ffff);
  });
});
