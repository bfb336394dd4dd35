import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planRuns } from "../../../../runtime/batch/plan-runs.ts";

const costs = { perRun: 48, maxTokens: 2_048 };
const lengths = fc.array(fc.integer({ min: 1, max: 512 }), { maxLength: 64 });
const paddedOf = (of: readonly number[], run: readonly number[]) =>
  run.length * Math.max(...run.map((index) => of[index] as number));

describe("runs cut out of a batch", () => {
  it("hold every item once", () => {
    fc.assert(
      fc.property(lengths, (of) => {
        const seen = planRuns(of, costs).flat();
        expect(seen.toSorted((a, b) => a - b)).toEqual(of.map((_, index) => index));
      }),
    );
  });

  it("never hold more tokens than allowed, unless one item alone does", () => {
    fc.assert(
      fc.property(lengths, (of) => {
        for (const run of planRuns(of, costs))
          if (run.length > 1) expect(paddedOf(of, run)).toBeLessThanOrEqual(costs.maxTokens);
      }),
    );
  });

  it("never cost more than one run for all, or one run for each", () => {
    fc.assert(
      fc.property(lengths, (of) => {
        const unbounded = { ...costs, maxTokens: Number.POSITIVE_INFINITY };
        const cost = (runs: readonly (readonly number[])[]) =>
          runs.reduce((sum, run) => sum + costs.perRun + paddedOf(of, run), 0);
        const all = of.map((_, index) => index);
        const planned = cost(planRuns(of, unbounded));
        expect(planned).toBeLessThanOrEqual(cost(all.length === 0 ? [] : [all]));
        expect(planned).toBeLessThanOrEqual(cost(all.map((index) => [index])));
      }),
    );
  });

  it("keep a long item from padding short ones", () => {
    expect(planRuns([5, 500, 6, 5], { perRun: 48, maxTokens: 8_192 })).toEqual([[0, 3, 2], [1]]);
  });
});
