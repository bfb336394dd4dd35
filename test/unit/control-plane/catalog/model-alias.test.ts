import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ModelAlias, modelsOf } from "../../../../control-plane/catalog/model-alias.ts";

const alias = (weights: readonly number[], fallbacks: readonly string[] = []): ModelAlias => ({
  name: "prod",
  account: null,
  targets: weights.map((weight, n) => ({ model: `m${n}`, weight })),
  fallbacks,
  isSticky: false,
  updatedAtMs: 0,
});

describe("the models of an alias", () => {
  it("divide 10,000 requests by weight within 2 %", () => {
    const counts = new Map<string, number>();
    for (let n = 0; n < 10_000; n++) {
      const [first = ""] = modelsOf(alias([90, 8, 2, 0]), Math.random());
      counts.set(first, (counts.get(first) ?? 0) + 1);
    }
    for (const [model, share] of [
      ["m0", 0.9],
      ["m1", 0.08],
      ["m2", 0.02],
      ["m3", 0],
    ] as const)
      expect(Math.abs((counts.get(model) ?? 0) / 10_000 - share), model).toBeLessThanOrEqual(0.02);
  });

  it("are each named once, the chosen one first, fallbacks last", () => {
    expect(modelsOf(alias([1, 5, 3], ["f", "m0"]), 0.99)).toEqual(["m2", "m1", "m0", "f"]);
    const weights = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 16 });
    fc.assert(
      fc.property(weights, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (some, unit) => {
        const models = modelsOf(alias(some, ["f"]), unit);
        expect(models.toSorted()).toEqual([...some.map((_, n) => `m${n}`), "f"].toSorted());
        if (some.some((weight) => weight > 0)) expect(some[Number(models[0]?.slice(1))]).toBeGreaterThan(0);
      }),
    );
  });
});
