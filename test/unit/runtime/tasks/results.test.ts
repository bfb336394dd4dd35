import { describe, expect, it } from "vitest";
import { Fields } from "../../../../runtime/server/fields.ts";
import { bestAnswer } from "../../../../runtime/tasks/answer-question.ts";
import { readZeroShot } from "../../../../runtime/tasks/classify-text.ts";
import { groupEntities } from "../../../../runtime/tasks/classify-tokens.ts";
import { objectsIn } from "../../../../runtime/tasks/detect-objects.ts";
import { ranked, sigmoid, softmax } from "../../../../runtime/tasks/numbers.ts";

const span = { start: 0, end: 1, isContinued: false };
const token = (label: string) => ({ label, score: 0.5, span });
const tensor = (dims: readonly number[], ...values: number[]) => ({
  type: "float32",
  dims,
  data: Float32Array.from(values),
});

describe("what becomes of scores", () => {
  it("sums to one, also for scores that would overflow", () => {
    expect(softmax([1000, 1000])).toEqual([0.5, 0.5]);
    expect(softmax([Number.NEGATIVE_INFINITY, 0])).toEqual([0, 1]);
    expect(sigmoid(0)).toBe(0.5);
  });

  it("ranks labels, and names those that the model does not", () => {
    expect(ranked(["a"], [0.2, 0.8])).toEqual([
      { label: "LABEL_1", score: 0.8 },
      { label: "a", score: 0.2 },
    ]);
  });

  it("groups tokens of one entity, and starts a new one at B", () => {
    const groups = groupEntities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC", "LOC"].map(token));
    expect(groups.map(({ kind, tokens }) => [kind, tokens.length])).toEqual([
      ["PER", 2],
      ["LOC", 1],
      ["LOC", 2],
    ]);
  });

  it("finds the likeliest answer that does not end before it starts and is no longer than 15 tokens", () => {
    const logits = { start: Float32Array.of(9, 0, 0, 5, 0), end: Float32Array.of(0, 9, 5, 0, 0) };
    // The question's tokens stand before the third.
    expect(bestAnswer(logits, { encoded: { ids: [], typeIds: [] }, at: 2, first: 10, count: 3 })).toMatchObject({
      from: 10,
      to: 10,
    });
    const far = { start: new Float32Array(40), end: new Float32Array(40) };
    far.start[0] = 9;
    far.end[39] = 9;
    const { from, to } = bestAnswer(far, { encoded: { ids: [], typeIds: [] }, at: 0, first: 0, count: 40 });
    expect(to - from).toBeLessThan(15);
  });

  it("keeps boxes within the picture and leaves out what is nothing", () => {
    const outputs = {
      logits: tensor([1, 2, 3], 5, 0, 0, 0, 0, 9),
      pred_boxes: tensor([1, 2, 4], 0.9, 0.5, 0.4, 0.5, 0.5, 0.5, 0.1, 0.1),
    };
    const found = objectsIn(outputs, ["cat", "dog"], { width: 100, height: 200 }, 0.5);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatchObject({ label: "cat", box: { xmin: 69, ymin: 50, xmax: 100, ymax: 150 } });
  });
});

it("puts a label into its hypothesis as it is", () => {
  const request = readZeroShot(new Fields({ candidate_labels: ["$& or $'", "a"], hypothesis_template: "of {}!" }));
  expect(request?.labels.map(request.hypothesis)).toEqual(["of $& or $'!", "of a!"]);
});
