import fc from "fast-check";
import { expect, it } from "vitest";
import { parseRange, subnetsFor } from "../../../../agent/docker/bridge-network.ts";

it("offers an instance every /28 of the range exactly once, from its own start", () => {
  const all = [...subnetsFor("10.231.0.0/22", "i1")];
  expect(all).toHaveLength(64);
  expect(new Set(all).size).toBe(64);
  for (const subnet of all) expect(subnet).toMatch(/^10\.231\.[0-3]\.\d+\/28$/);
  expect([...subnetsFor("10.231.0.0/22", "i1")]).toEqual(all);
  expect([...subnetsFor("10.231.0.0/22", "i2")][0]).not.toBe(all[0]);
});

it("stays inside the range, whatever its address", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.integer({ min: 20, max: 28 }), (number, bits) => {
      const address = [24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join(".");
      const { base, count } = parseRange(`${address}/${bits}`);
      expect(count).toBe(2 ** (28 - bits));
      for (const subnet of subnetsFor(`${address}/${bits}`, "x")) {
        const [text = ""] = subnet.split("/");
        const at = text.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
        expect(at >= base && at < base + 2 ** (32 - bits)).toBe(true);
      }
    }),
  );
});

it.each(["", "10.0.0.0", "10.0.0.0/30", "10.0.0/16", "fd00::/64", "10.0.0.0/x"])(
  "refuses %j with a sentence",
  (range) => {
    expect(() => parseRange(range)).toThrow(/--container-subnet .*such as/);
  },
);
