import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { grantSizes } from "../../../../control-plane/billing/grant-size.ts";

const amount = fc.bigInt({ min: 0n, max: 1_000n });
const scope = fc.record({ free: amount, available: amount });
const want = fc.tuple(amount, amount).map(([a, b]) => (a < b ? { floor: a, full: b } : { floor: b, full: a }));

describe("the size of a grant", () => {
  it("never passes the available of any scope", () => {
    fc.assert(
      fc.property(
        fc.array(scope, { minLength: 1, maxLength: 3 }),
        fc.array(want, { maxLength: 10 }),
        amount,
        (scopes, wants, headroom) => {
          const { amounts: sizes } = grantSizes(scopes, wants, headroom);
          for (const [i, size] of sizes.entries()) {
            expect(size).toBeGreaterThanOrEqual(0n);
            expect(size).toBeLessThanOrEqual(scopes[i]?.available ?? -1n);
          }
        },
      ),
    );
  });

  it("near the limit is what the requests take and nothing more", () => {
    expect(grantSizes([{ free: 0n, available: 1_000n }], [{ floor: 100n, full: 400n }], 300n).amounts).toEqual([400n]);
    expect(grantSizes([{ free: 150n, available: 1_000n }], [{ floor: 100n, full: 400n }], 300n).amounts).toEqual([
      250n,
    ]);
    expect(
      grantSizes([{ free: 0n, available: 500n }], Array(3).fill({ floor: 100n, full: 200n }), 50n).amounts,
    ).toEqual([500n]);
    expect(
      grantSizes([{ free: 0n, available: 450n }], Array(3).fill({ floor: 100n, full: 200n }), 50n).amounts,
    ).toEqual([400n]);
  });

  it("far from the limit, or without one, takes the coming seconds along", () => {
    expect(grantSizes([{ free: 0n, available: 10_000n }], [{ floor: 100n, full: 400n }], 300n).amounts).toEqual([700n]);
    expect(grantSizes([{ free: 0n, available: undefined }], [], 300n).amounts).toEqual([300n]);
  });

  it("leases from no scope for a request that one of them cannot take", () => {
    const scopes = [
      { free: 0n, available: 1_000n },
      { free: 0n, available: 50n },
    ];
    expect(grantSizes(scopes, [{ floor: 100n, full: 400n }], 300n).amounts).toEqual([0n, 0n]);
    expect(grantSizes(scopes, [{ floor: 20n, full: 400n }], 300n).amounts).toEqual([50n, 50n]);
  });

  it("names the smallest request that does not fit and the scope that lacks the money", () => {
    const scopes = [
      { free: 0n, available: 500n },
      { free: 20n, available: 30n },
    ];
    const wants = [90n, 60n, 40n].map((floor) => ({ floor, full: floor }));
    expect(grantSizes(scopes, wants, 0n).refusal).toEqual({ scope: 1, floor: 60n });
    expect(grantSizes(scopes, [{ floor: 20n, full: 400n }], 0n).refusal).toBeNull();
    expect(grantSizes(scopes, [], 0n).refusal).toBeUndefined();
  });
});
