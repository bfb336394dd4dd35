import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { affinityOf } from "../../../../control-plane/inference/affinity.ts";
import type { Completion } from "../../../../control-plane/inference/completion.ts";
import { pickRoute } from "../../../../control-plane/inference/route.ts";
import type { AccountId } from "../../../../proto/ids.ts";
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

const chat = (messages: unknown, more: object = {}): Completion => {
  const fields = { model: "m", messages, ...more };
  const bytes = Buffer.from(JSON.stringify(fields));
  const rest = {
    model: "m",
    stream: false,
    n: 1,
    maxTokens: 1,
    messages: 1,
    usage: "merge",
    isRebuilt: false,
    task: undefined,
  } as const;
  return { kind: "chat", ...rest, promptBytes: bytes.length, bytes, fields };
};
const [ada, bob] = ["ada" as AccountId, "bob" as AccountId];
const system = { role: "system", content: "You are a careful assistant. ".repeat(30) };
const turn = (content: string) => chat([system, { role: "user", content }]);

describe("a prompt's beginning", () => {
  it("is one for all that begin alike, and another for other accounts, prompts and keys", () => {
    const own = affinityOf(turn("one"), ada);
    expect(affinityOf(turn("two"), ada)).toBe(own);
    expect(affinityOf(turn("one"), bob)).not.toBe(own);
    expect(affinityOf(chat([{ ...system, content: system.content.replace("careful", "rude") }]), ada)).not.toBe(own);
    const keyed = affinityOf(chat([system], { prompt_cache_key: "k" }), ada);
    expect(affinityOf(chat([{ role: "user", content: "hi" }], { prompt_cache_key: "k" }), ada)).toBe(keyed);
    expect(affinityOf(chat([system], { prompt_cache_key: "k" }), bob)).not.toBe(keyed);
  });

  it("of a short prompt steers nothing", () => {
    expect(affinityOf(chat([{ role: "user", content: "hi" }]), ada)).toBe(0);
  });

  it("goes to one instance while that is not much fuller than the least loaded, and never to a full one", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2 ** 32 - 1 }),
        fc.array(fc.tuple(fc.nat(64), fc.integer({ min: 1, max: 64 })), { minLength: 2, maxLength: 8 }),
        (affinity, loads) => {
          const picked = pickRoute(routesOf(loads), [], affinity);
          const shares = loads.map(([inFlight, size]) => inFlight / size);
          const share = (picked?.inFlight as number) / (picked?.maxBatchSize as number);
          expect(share).toBeLessThanOrEqual(Math.min(...shares) + 0.25);
          if (Math.min(...shares) < 1) expect(share).toBeLessThan(1);
        },
      ),
    );
  });

  it("keeps its instance when another one comes or goes, and beginnings spread over all", () => {
    const idle = Array.from({ length: 5 }, () => [0, 8] as const);
    const [five, four] = [routesOf(idle), routesOf(idle.slice(0, 4))];
    const counts = new Map<string, number>();
    for (let affinity = 1; affinity <= 1000; affinity++) {
      const number = Math.imul(affinity, 2654435761) >>> 0;
      const of5 = pickRoute(five, [], number)?.instanceId as string;
      const of4 = pickRoute(four, [], number)?.instanceId as string;
      counts.set(of5, (counts.get(of5) ?? 0) + 1);
      if (of5 !== five[4]?.instanceId) expect(of4).toBe(of5);
    }
    expect(counts.size).toBe(5);
    for (const count of counts.values()) expect(count).toBeGreaterThan(120);
  });

  it("whose instance was tried goes to another one", () => {
    const routes = routesOf([
      [0, 8],
      [0, 8],
    ]);
    const first = pickRoute(routes, [], 77);
    expect(pickRoute(routes, first ? [first] : [], 77)).not.toBe(first);
  });
});
