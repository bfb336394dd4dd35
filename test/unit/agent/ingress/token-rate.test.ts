import { expect, it } from "vitest";
import { TokenRate } from "../../../../agent/ingress/target.ts";

it("averages over the last ten seconds and forgets what is older, also after a long silence", () => {
  let now = 0;
  const rate = new TokenRate(() => now);
  for (; now < 10_000; now += 1_000) rate.add(5);
  now = 9_999;
  expect(rate.perSecond()).toBe(5);
  now = 14_500;
  expect(rate.perSecond()).toBe(2.5);
  now = 10_000_000;
  expect(rate.perSecond()).toBe(0);
});
