import fc from "fast-check";
import { expect, it } from "vitest";
import { pickRoute } from "../../../../control-plane/inference/route.ts";
import { FakeRoutes } from "../../../fakes/ports.ts";

const routesOf = (loads: readonly (readonly [number, number])[]) => {
  const routes = new FakeRoutes();
  for (const [inFlight, maxBatchSize] of loads) routes.add("http://127.0.0.1:1", { inFlight, maxBatchSize });
  return routes.routes;
};

it("the least loaded instance for its size is picked", () => {
  const loads = fc.array(fc.tuple(fc.nat(50), fc.integer({ min: 1, max: 256 })), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(loads, (list) => {
      const routes = routesOf(list);
      const picked = pickRoute(routes, []);
      const least = Math.min(...list.map(([inFlight, size]) => inFlight / size));
      expect((picked?.inFlight as number) / (picked?.maxBatchSize as number)).toBeCloseTo(least);
    }),
  );
});

it("an instance is not picked twice, even when its object was made anew", () => {
  const routes = routesOf([
    [0, 8],
    [5, 8],
  ]);
  const again = routesOf([[0, 8]]);
  expect(pickRoute(routes, again)?.instanceId).toBe("instance-2");
  expect(pickRoute(routes, routes)).toBeUndefined();
  expect(pickRoute([], [])).toBeUndefined();
});
