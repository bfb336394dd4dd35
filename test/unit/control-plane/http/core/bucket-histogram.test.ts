import fc from "fast-check";
import { Histogram, Registry } from "prom-client";
import { expect, it } from "vitest";
import { BucketHistogram } from "../../../../../control-plane/http/core/bucket-histogram.ts";

const bounds = [0.01, 0.1, 1, 10];

it("prints what prom-client's own histogram prints", async () => {
  const observation = fc.tuple(
    fc.constantFrom("a", 'b"\n', "c"),
    fc.oneof(fc.constantFrom(0, 0.01, 0.1, 10), fc.double({ min: 0, max: 50, noNaN: true })),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(observation, { maxLength: 30 }), async (observations) => {
      const [ours, theirs] = [new Registry(), new Registry()];
      const fast = new BucketHistogram(ours, "seconds", "Help", bounds);
      const plain = new Histogram({
        name: "seconds",
        help: "Help",
        labelNames: ["route"],
        buckets: bounds,
        registers: [theirs],
      });
      for (const [route, value] of observations) {
        fast.child({ route }).observe(value);
        plain.observe({ route }, value);
      }
      // Label order within a line is each one's own.
      const lines = async (registry: Registry) =>
        (await registry.metrics())
          .split("\n")
          .map((line) => line.replace(/\{(.*)\}/, (_, inner) => `{${inner.split(",").sort()}}`));
      expect(await lines(ours)).toEqual(await lines(theirs));
    }),
    { numRuns: 50 },
  );
});

it("one label set is one series", async () => {
  const registry = new Registry();
  const histogram = new BucketHistogram(registry, "seconds", "Help", bounds);
  histogram.child({ route: "a" }).observe(1);
  histogram.child({ route: "a" }).observe(2);
  expect(await registry.metrics()).toContain('seconds_count{route="a"} 2');
});
