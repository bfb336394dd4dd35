import { describe, expect, it } from "vitest";
import { normalized, pool, resized } from "../../../../runtime/tasks/pooling.ts";

const item = (length: number) => ({ ids: Array.from({ length }, () => 1), typeIds: [] });
// Two rows of two dimensions, padded to three tokens; the second row has two tokens.
const output = { type: "float32", dims: [2, 3, 2], data: Float32Array.of(1, 2, 3, 4, 5, 0, 10, 20, 30, 0, 99, 99) };
const batch = { items: [item(3), item(2)], longest: 3 };

describe("pooling", () => {
  it.each([
    [
      "mean",
      [
        [3, 2],
        [20, 10],
      ],
    ],
    [
      "cls",
      [
        [1, 2],
        [10, 20],
      ],
    ],
    [
      "max",
      [
        [5, 4],
        [30, 20],
      ],
    ],
    [
      "last",
      [
        [5, 0],
        [30, 0],
      ],
    ],
  ] as const)("reads the tokens of each text and no padding: %s", (pooling, expected) => {
    expect(pool(output, batch, pooling).map((vector) => [...vector])).toEqual(expected);
  });

  it("brings vectors to length one and leaves a vector of zeros", () => {
    expect([...normalized(Float32Array.of(3, 4))]).toEqual([0.6000000238418579, 0.800000011920929]);
    expect([...normalized(new Float32Array(2))]).toEqual([0, 0]);
  });

  it("cuts to fewer dimensions at length one, and pads to more with zeros", () => {
    expect([...resized(Float32Array.of(3, 4, 5), 2, true)].map((n) => n.toFixed(3))).toEqual(["0.600", "0.800"]);
    expect([...resized(Float32Array.of(3, 4, 5), 2, false)]).toEqual([3, 4]);
    expect([...resized(Float32Array.of(1, 2), 4, true)]).toEqual([1, 2, 0, 0]);
  });
});
