import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { affordableMaxTokens, holdSize, promptTokensBound } from "../../../../control-plane/billing/price.ts";
import { costOf, freeOfCharge, nano } from "../../../../proto/money.ts";

const rate = fc.bigInt({ min: 0n, max: 100_000_000_000n });
const rates = fc.record({ input: rate, cachedInput: rate, output: rate });
const sizes = fc.record({
  promptBytes: fc.nat(1_000_000),
  messages: fc.integer({ min: 1, max: 500 }),
  n: fc.integer({ min: 1, max: 4 }),
  maxTokens: fc.integer({ min: 1, max: 1_000_000 }),
});

describe("the size of a hold", () => {
  it("is never below what the request can cost", () => {
    fc.assert(
      fc.property(
        sizes,
        rates,
        fc.float({ min: 0, max: 1, noNaN: true }),
        fc.float({ min: 0, max: 1, noNaN: true }),
        (size, price, share, cached) => {
          const input = Math.floor(promptTokensBound(size) * share);
          const tokens = {
            input,
            cachedInput: Math.floor(input * cached),
            output: Math.floor(size.n * size.maxTokens * share),
          };
          expect(holdSize(size, price).full).toBeGreaterThanOrEqual(costOf(tokens, price));
        },
      ),
    );
  });

  it("has a floor of the prompt and one token per sequence", () => {
    fc.assert(
      fc.property(sizes, rates, (size, price) => {
        const { floor, full } = holdSize(size, price);
        expect(floor).toBeLessThanOrEqual(full);
        expect(holdSize({ ...size, maxTokens: 1 }, price).full).toBe(floor);
      }),
    );
  });

  it("buys, when only partly granted, no more tokens than it can pay and not one fewer", () => {
    fc.assert(
      fc.property(sizes, rates, fc.float({ min: 0, max: 1, noNaN: true }), (size, price, share) => {
        fc.pre(price.output > 0n);
        const { floor, full } = holdSize(size, price);
        const amount = nano(floor + ((full - floor) * BigInt(Math.floor(share * 1_000))) / 1_000n);
        const tokens = affordableMaxTokens(amount, size, price);
        expect(tokens).toBeGreaterThanOrEqual(1);
        expect(holdSize({ ...size, maxTokens: tokens }, price).full).toBeLessThanOrEqual(amount);
        if (tokens < size.maxTokens) {
          expect(holdSize({ ...size, maxTokens: tokens + 1 }, price).full).toBeGreaterThan(amount);
        }
      }),
    );
  });

  it("is nothing for a free model, which may use all its tokens", () => {
    const size = { promptBytes: 10, messages: 1, n: 1, maxTokens: 99 };
    expect(holdSize(size, freeOfCharge)).toEqual({ floor: 0n, full: 0n });
    expect(affordableMaxTokens(nano(0n), size, freeOfCharge)).toBe(99);
  });
});
