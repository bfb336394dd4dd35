import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { alignTokens, sliceOf } from "../../../../runtime/tasks/align-tokens.ts";

const slices = (text: string, tokens: readonly (string | undefined)[]) =>
  alignTokens(text, tokens).map(({ start, end }) => sliceOf(text, start, end));

describe("tokens found again in their text", () => {
  it("match through lower case, accents and pieces of words", () => {
    const tokens = ["jose", "met", "ba", "##bba", "##ge", "in", "zurich", "!"];
    expect(slices("José met  Babbage in Zürich!", tokens)).toEqual([..."José met Ba bba ge in Zürich !".split(" ")]);
  });

  it("match with leading spaces as other tokenizers mark them, counted in characters", () => {
    expect(alignTokens("🎉 a party", ["🎉", " a", "▁par", "ty"]).map(({ start, end }) => [start, end])).toEqual([
      [0, 1],
      [2, 3],
      [4, 7],
      [7, 9],
    ]);
  });

  it("match around an unknown token", () => {
    expect(slices("the ☃☃ melts", ["the", undefined, "melts"])).toEqual(["the", "☃☃", "melts"]);
    expect(slices("☃, cold", [undefined, ",", "cold"])).toEqual(["☃", ",", "cold"]);
  });

  it("marks the pieces that continue a word", () => {
    expect(alignTokens("un able", ["un", "##able"]).map(({ isContinued }) => isContinued)).toEqual([false, true]);
    expect(alignTokens("unable to", [" un", "able", " to"]).map(({ isContinued }) => isContinued)).toEqual([
      false,
      true,
      false,
    ]);
  });

  it("never leaves the text, whatever the tokens are", () => {
    fc.assert(
      fc.property(fc.string(), fc.array(fc.option(fc.string(), { nil: undefined })), (text, tokens) => {
        const length = [...text].length;
        for (const { start, end } of alignTokens(text, tokens)) {
          expect(start).toBeGreaterThanOrEqual(0);
          expect(end).toBeGreaterThanOrEqual(start);
          expect(end).toBeLessThanOrEqual(length);
        }
      }),
    );
  });
});
