import { describe, expect, it } from "vitest";
import { scoresOf } from "../../../proto/engine-scores.ts";

describe("scores of an engine's response", () => {
  it.each([
    ["results, sorted", { results: [1, 0].map((index) => ({ index, relevance_score: index })) }],
    ["data", { data: [0, 1].map((score, index) => ({ index, score })) }],
    ["numbers", { scores: [0, 1] }],
    ["a list without indexes", [{ score: 0 }, { score: 1 }]],
  ])("are in the order of the documents: %s", (_, answer) => {
    expect(scoresOf(answer, 2)).toEqual([0, 1]);
  });

  it("are refused at once when an index would size an array of 4 billion", () => {
    expect(() => scoresOf([{ index: 4_294_967_294, score: 1 }], 1)).toThrow("no score of document 0");
  });

  it.each([["1e999"], ["null"], ['"1"']])("are refused unless each is a finite number: %s", (score) => {
    expect(() => scoresOf(JSON.parse(`{"scores":[0,${score}]}`), 2)).toThrow();
    expect(() => scoresOf(JSON.parse(`[{"index":0,"score":${score}}]`), 1)).toThrow("not a finite number");
  });

  it.each([[[0, 0]], [[0, -1]], [[0, 1.5]], [[0, "1"]], [[0, null]], [[0]], [[0, 1, 1]]])(
    "are refused unless each document has exactly one: %j",
    (indexes) => {
      expect(() => scoresOf({ results: indexes.map((index) => ({ index, score: 1 })) }, 2)).toThrow(TypeError);
    },
  );
});
