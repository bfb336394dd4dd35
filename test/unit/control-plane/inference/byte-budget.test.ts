import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ByteBudget } from "../../../../control-plane/inference/byte-budget.ts";

const kib = 1024;

describe("the byte budget of bodies", () => {
  it("is never passed but by one alone, and empty when all is given back", () => {
    const step = fc.record({ account: fc.constantFrom("a", "b", "c"), bytes: fc.integer({ min: 1, max: 900 * kib }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.infiniteStream(fc.boolean()), (steps, ends) => {
        const budget = new ByteBudget(600 * kib);
        const held: (typeof steps)[number][] = [];
        for (const one of steps) {
          if (budget.take(one.account, one.bytes)) held.push(one);
          const sum = held.reduce((bytes, { bytes: more }) => bytes + more, 0);
          expect(budget.heldBytes).toBe(sum);
          if (held.length > 1 && held[0] !== one) expect(sum <= 600 * kib || held[0]?.bytes === sum).toBe(true);
          if (held.length > 0 && ends.next().value) {
            const gone = held.shift() as (typeof steps)[number];
            budget.give(gone.account, gone.bytes);
          }
        }
        for (const { account, bytes } of held) budget.give(account, bytes);
        expect(budget.heldBytes).toBe(0);
        expect(budget.take("a", 600 * kib)).toBe(true);
      }),
    );
  });

  it("is not one account's alone: beyond one request it has half of it", () => {
    const budget = new ByteBudget(1000 * kib);
    expect([budget.take("a", 400 * kib), budget.take("a", 200 * kib)]).toEqual([true, false]);
    expect([budget.take("b", 200 * kib), budget.take("b", 300 * kib)]).toEqual([true, true]);
    expect(budget.refusals).toBe(1);
    budget.give("a", 400 * kib);
    expect(budget.take("a", 450 * kib)).toBe(true);
  });

  it("counts one request's pieces as one sum, which it gives back", () => {
    const budget = new ByteBudget(1000 * kib);
    let before = 0;
    for (let n = 0; n < 9; n++, before += 50 * kib) expect(budget.take("a", 50 * kib, before)).toBe(true);
    expect(budget.take("a", 100 * kib)).toBe(false);
    budget.give("a", before);
    expect([budget.heldBytes, budget.take("a", 500 * kib)]).toEqual([0, true]);
  });

  it("leaves a few MiB to all who have no account", () => {
    const budget = new ByteBudget(100 * 1024 * kib);
    expect([budget.take("", 3 * 1024 * kib), budget.take("", 2 * 1024 * kib)]).toEqual([true, false]);
  });
});
