import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Sampling } from "../../../../runtime/server/text-engine.ts";
import { ideficsTexts, imageText, placeImages } from "../../../../runtime/tasks/vision/image-prompt.ts";
import { logprobsOf, sampleToken, seededRandom } from "../../../../runtime/tasks/vision/sample.ts";

const plain: Sampling = {
  temperature: 1,
  topP: 1,
  minP: 0,
  topK: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repetitionPenalty: 1,
  seed: undefined,
};
const unseen = { prompt: new Set<number>(), generated: new Map<number, number>() };
const logits = Float32Array.of(0, Math.log(2), Math.log(4), Math.log(1), Math.log(8));

describe("the next token", () => {
  test("is the likeliest without temperature, and drawn by its chance with one", () => {
    expect(sampleToken(logits, { ...plain, temperature: 0 }, unseen, () => 0.99)).toBe(4);
    const random = seededRandom(1);
    const counts = new Map<number, number>();
    for (let i = 0; i < 8000; i += 1) {
      const token = sampleToken(logits, plain, unseen, random);
      counts.set(token, (counts.get(token) ?? 0) + 1);
    }
    for (const [token, weight] of [1, 2, 4, 1, 8].entries())
      expect(Math.abs((counts.get(token) ?? 0) / 8000 - weight / 16)).toBeLessThan(0.02);
  });

  test("is among the first by top_k, within the nucleus of top_p, not below min_p of the best", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 0.999999, noNaN: true }), (at) => {
        expect([4, 2]).toContain(sampleToken(logits, { ...plain, topK: 2 }, unseen, () => at));
        expect([4, 2]).toContain(sampleToken(logits, { ...plain, topP: 0.7 }, unseen, () => at));
        expect([4, 2, 1]).toContain(sampleToken(logits, { ...plain, minP: 0.2 }, unseen, () => at));
      }),
      { numRuns: 200 },
    );
  });

  test("is less likely for having been said, by each penalty in its own way", () => {
    const greedy = { ...plain, temperature: 0 };
    const said = { prompt: new Set<number>(), generated: new Map([[4, 2]]) };
    expect(sampleToken(logits, { ...greedy, presencePenalty: 0.5 }, said, () => 0)).toBe(4);
    expect(sampleToken(logits, { ...greedy, presencePenalty: 1 }, said, () => 0)).toBe(2);
    expect(sampleToken(logits, { ...greedy, frequencyPenalty: 0.5 }, said, () => 0)).toBe(2);
    const asked = { prompt: new Set([4]), generated: new Map<number, number>() };
    expect(sampleToken(logits, { ...greedy, repetitionPenalty: 2 }, asked, () => 0)).toBe(2);
    expect(sampleToken(logits, { ...greedy, presencePenalty: 2 }, asked, () => 0)).toBe(4);
    expect(logits[4]).toBe(Math.fround(Math.log(8)));
  });

  test("has the logarithm of its chance beside those of the likeliest", () => {
    const { logprob, top } = logprobsOf(logits, 1, 2);
    expect(logprob).toBeCloseTo(Math.log(2 / 16), 5);
    expect(top.map(({ token }) => token)).toEqual([4, 2]);
    expect(top[0]?.logprob).toBeCloseTo(Math.log(0.5), 5);
    expect(logprobsOf(logits, 1, 0).top).toEqual([]);
  });
});

describe("a picture in a prompt", () => {
  test("is framed by rows and columns, the whole of it last; one that is not cut is the whole alone", () => {
    const tokens = { ...ideficsTexts, perTile: 2 };
    const [around, tile] = ["<fake_token_around_image>", "<image><image>"];
    expect(imageText({ rows: 0, columns: 0 }, tokens)).toBe(`${around}<global-img>${tile}${around}`);
    expect(imageText({ rows: 2, columns: 1 }, tokens)).toBe(
      `${around}<row_1_col_1>${tile}\n${around}<row_2_col_1>${tile}\n\n${around}<global-img>${tile}${around}`,
    );
  });

  test("takes its own place and no other's", () => {
    expect(placeImages([1, 9, 2, 9], 9, [[7, 9, 7], [8]])).toEqual([1, 7, 9, 7, 2, 8]);
  });
});
