import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { discountFor } from "../../../../control-plane/billing/discounts.ts";
import { priceAt } from "../../../../control-plane/billing/price-book.ts";
import type { Discount, PriceVersion } from "../../../../control-plane/billing/store.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { discountedRate } from "../../../../proto/price-rules.ts";

const use = { account: "u:1" as AccountId, model: "org/model", surface: "chat" };
const discount = (change: Partial<Discount>): Discount => ({
  id: "d",
  name: "n",
  text: "",
  basisPoints: 1_000,
  account: null,
  model: null,
  surface: null,
  effectiveFromMs: 100,
  effectiveToMs: 200,
  ...change,
});

describe("the discount of a request", () => {
  it.each<[Partial<Discount>, boolean]>([
    [{}, true],
    [{ account: use.account, model: use.model, surface: use.surface }, true],
    [{ account: "u:2" as AccountId }, false],
    [{ model: "org/model-2" }, false],
    [{ surface: "text_completion" }, false],
    [{ effectiveFromMs: 151 }, false],
    [{ effectiveToMs: 150 }, false],
    [{ effectiveToMs: null }, true],
  ])("of %o applies: %s", (change, applies) => {
    expect(discountFor([discount(change)], use, 150) !== undefined).toBe(applies);
  });

  it("is the larger of two, whatever their order", () => {
    const both = [discount({ id: "a", basisPoints: 500 }), discount({ id: "b", basisPoints: 700 })];
    expect(discountFor(both, use, 150)?.id).toBe("b");
    expect(discountFor(both.reverse(), use, 150)?.id).toBe("b");
  });

  it("never raises a rate, and the whole is free", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 10n ** 15n), fc.integer({ min: 1, max: 10_000 }), (rate, basisPoints) => {
        const lower = discountedRate(rate, basisPoints);
        expect(lower >= 0n && lower <= rate).toBe(true);
        expect(discountedRate(rate, 10_000)).toBe(0n);
      }),
    );
  });
});

describe("the price that holds", () => {
  it("is the one that began last, and of two that began together the one set later", () => {
    const version = (of: number, effectiveFromMs: number) => ({ version: BigInt(of), effectiveFromMs }) as PriceVersion;
    const all = [version(1, 100), version(2, 300), version(3, 200), version(4, 200)];
    expect(priceAt(all, 99)).toBeUndefined();
    expect(priceAt(all, 150)?.version).toBe(1n);
    expect(priceAt(all, 200)?.version).toBe(4n);
    expect(priceAt(all, 1_000)?.version).toBe(2n);
  });
});
