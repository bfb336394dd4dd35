import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bucketCount, bucketOf, observe, quantile } from "../../../../control-plane/series/histogram.ts";

const of = (values: readonly number[]) => {
  const histogram: number[] = [];
  for (const value of values) observe(histogram, value);
  return histogram;
};

describe("a histogram of durations", () => {
  it("gives percentiles within 19 per cent of the exact ones", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 3_000_000 }), { minLength: 1, maxLength: 200 }),
        fc.constantFrom(0.5, 0.95, 0.99, 1),
        (values, ratio) => {
          const sorted = values.toSorted((a, b) => a - b);
          const exact = sorted[Math.ceil(ratio * values.length) - 1] as number;
          const found = quantile(of(values), ratio) as number;
          expect(found / exact).toBeGreaterThan(1 / 1.19);
          expect(found / exact).toBeLessThan(1.19);
        },
      ),
    );
  });

  it("has no percentile without durations", () => {
    expect(quantile([], 0.5)).toBeNull();
    expect(quantile([0, 0], 0.5)).toBeNull();
  });

  it("keeps every duration in one of its buckets", () => {
    for (const ms of [Number.NaN, -1, 0, 0.2, 1]) expect(bucketOf(ms)).toBe(0);
    for (const ms of [1e12, Number.POSITIVE_INFINITY]) expect(bucketOf(ms)).toBe(bucketCount - 1);
  });
});
