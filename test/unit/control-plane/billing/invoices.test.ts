import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { amountsDue, draftInvoice, stateOf } from "../../../../control-plane/billing/invoices.ts";
import { acrossKeys, totalOf, type UsageLine } from "../../../../control-plane/billing/usage-line.ts";
import { inWholeCents, roundedCents } from "../../../../control-plane/billing/whole-cents.ts";
import type { KeyId } from "../../../../proto/ids.ts";

const line = (change: Partial<UsageLine> = {}): UsageLine => ({
  key: "k1" as KeyId,
  model: "acme/a",
  task: "text-generation",
  isPrivate: false,
  pricingType: "tokens",
  priceVersion: 1n,
  discount: null,
  milliUnits: 1000n,
  cost: 20n,
  ...change,
});
const amounts = fc.array(fc.bigInt({ min: -1_000n, max: 1_000_000n }), { maxLength: 12 });

describe("an invoice", () => {
  it("is the sum of its lines to the nano-dollar, whatever the grouping", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(3), fc.nat(3), fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n }))),
        (uses) => {
          const lines = uses.map(([key, model, cost]) => line({ key: `k${key}` as KeyId, model: `m${model}`, cost }));
          const draft = draftInvoice(lines, 14, 0);
          expect(draft?.total ?? 0n).toBe(uses.reduce((sum, [, , cost]) => sum + cost, 0n));
          expect(totalOf(acrossKeys(lines))).toBe(totalOf(lines));
        },
      ),
    );
  });

  it("is not made of a month without entries, and is of one whose entries cancel out", () => {
    expect(draftInvoice([], 14, 0)).toBeUndefined();
    expect(draftInvoice([line(), line({ cost: -20n })], 14, 0)).toMatchObject({ total: 0n, dueAtMs: 14 * 86_400_000 });
  });

  it("keeps lines of different prices and discounts apart on the page", () => {
    const discount = { id: "d", name: "Spring", text: "20 % off" };
    const shown = acrossKeys([line(), line({ key: "k2" as KeyId }), line({ priceVersion: 2n }), line({ discount })]);
    expect(shown.map(({ priceVersion, discount: d, cost }) => [priceVersion, d?.name, cost])).toEqual([
      [1n, undefined, 40n],
      [1n, "Spring", 20n],
      [2n, undefined, 20n],
    ]);
  });
});

describe("what is due", () => {
  it("is together what was invoiced beyond the credits, and never more of one invoice than its total", () => {
    fc.assert(
      fc.property(amounts, fc.bigInt({ min: 0n, max: 2_000_000n }), (totals, credits) => {
        const due = amountsDue(totals, credits, 1n);
        for (const [i, amount] of due.entries()) {
          expect(amount >= 0n).toBe(true);
          const total = totals[i] ?? 0n;
          expect(amount <= (total > 0n ? total : 0n)).toBe(true);
        }
        if (totals.every((total) => total >= 0n)) {
          const beyond = totals.reduce((sum, total) => sum + total, 0n) - credits;
          expect(due.reduce((sum, amount) => sum + amount, 0n)).toBe(beyond > 0n ? beyond : 0n);
        }
      }),
    );
  });

  it("is taken from the oldest first", () => {
    expect(amountsDue([10n, 10n, 10n], 15n, 1n)).toEqual([0n, 5n, 10n]);
  });

  it("below the least a provider takes counts as paid, and the next invoice asks for it too", () => {
    expect(amountsDue([1_234_567n], 1_230_000n, 10_000n)).toEqual([0n]);
    expect(amountsDue([1_234_567n, 1_000_000n], 1_230_000n, 10_000n)).toEqual([0n, 1_004_567n]);
    // The first was marked paid meanwhile: its rest is asked for all the same.
    expect(amountsDue([1_000_000n], 1_230_000n - 1_234_567n, 10_000n)).toEqual([1_004_567n]);
    expect(amountsDue([30n, 30n, 30n], 0n, 50n)).toEqual([0n, 60n, 0n]);
    expect(amountsDue([-1n, 10n], -3n, 1n)).toEqual([0n, 12n]);
  });

  it("makes an invoice overdue only after its day, and never once it was paid", () => {
    expect(stateOf({ dueAtMs: 100, paidAtMs: null }, 5n, 100)).toEqual({ status: "open", amountDue: 5n });
    expect(stateOf({ dueAtMs: 100, paidAtMs: null }, 5n, 101)).toEqual({ status: "overdue", amountDue: 5n });
    expect(stateOf({ dueAtMs: 100, paidAtMs: null }, 0n, 101)).toEqual({ status: "paid", amountDue: 0n });
    expect(stateOf({ dueAtMs: 100, paidAtMs: 90 }, 5n, 101)).toEqual({ status: "paid", amountDue: 0n });
  });
});

describe("amounts in whole cents", () => {
  const cent = 10_000_000n;

  it("add up to the rounded total, and each is within a cent of its amount", () => {
    const amountsOfLines = fc.array(fc.bigInt({ min: -(10n ** 16n), max: 10n ** 18n }), { maxLength: 40 });
    fc.assert(
      fc.property(amountsOfLines, (lines) => {
        const rounded = inWholeCents(lines);
        const exact = lines.reduce((sum, amount) => sum + amount, 0n);
        expect(rounded.lines.reduce((sum, cents) => sum + cents, 0n)).toBe(rounded.total);
        expect(rounded.total).toBe(roundedCents(exact));
        for (const [at, amount] of lines.entries()) {
          const difference = (rounded.lines[at] as bigint) * cent - amount;
          expect(difference > -cent && difference < cent, String(amount)).toBe(true);
        }
      }),
    );
  });

  it("give a missing cent to the line with the largest rest", () => {
    expect(inWholeCents([cent / 4n, (cent * 3n) / 4n, cent])).toEqual({ lines: [0n, 1n, 1n], total: 2n });
    expect(inWholeCents([-cent / 2n])).toEqual({ lines: [0n], total: 0n });
  });
});
