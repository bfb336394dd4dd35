import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { base64Of, numbersText } from "../../../../runtime/tasks/number-text.ts";

describe("the text of a vector", () => {
  it("is JSON within ten decimals of every number, whatever its size and sign", () => {
    const number = fc.oneof(
      fc.float({ min: -1, max: 1, noNaN: true }),
      fc.float({ noNaN: true, noDefaultInfinity: true, min: -1000, max: 1000 }),
      fc.constantFrom(0, -0, 1, -1, 1e-10, -1e-12, 0.99999994, 0.5),
    );
    fc.assert(
      fc.property(fc.array(number, { maxLength: 40 }), (numbers) => {
        const vector = Float32Array.from(numbers);
        const read = JSON.parse(numbersText(vector)) as number[];
        expect(read).toHaveLength(vector.length);
        for (const [i, value] of vector.entries()) expect(Math.abs((read[i] as number) - value)).toBeLessThan(1e-10);
      }),
    );
  });

  it("has no more digits than it needs", () => {
    expect(numbersText(Float32Array.of(0, -0.5, 0.25, 1e-12))).toBe("[0,-0.5,0.25,0]");
    expect(numbersText(Float32Array.of(2, -0.5))).toBe("[2,-0.5]");
    expect(numbersText(new Float32Array())).toBe("[]");
  });

  it("is refused for what is no number", () => {
    expect(() => numbersText(Float32Array.of(0.5, Number.NaN))).toThrow("no usable numbers");
    expect(() => base64Of(Float32Array.of(Number.POSITIVE_INFINITY))).toThrow("no usable numbers");
  });
});
