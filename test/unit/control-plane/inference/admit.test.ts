import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Discount } from "../../../../control-plane/billing/store.ts";
import { type Admission, admit } from "../../../../control-plane/inference/admit.ts";
import type { Completion, Trace } from "../../../../control-plane/inference/completion.ts";
import { RateMeters } from "../../../../control-plane/quotas/rate-limiter.ts";
import { defaultRateLimits } from "../../../../control-plane/quotas/rate-limits.ts";
import type { RequestId } from "../../../../proto/ids.ts";
import { ceilingOf, nano } from "../../../../proto/money.ts";
import { ada, FakeBudgets, FakeModels, servedModel } from "../../../fakes/ports.ts";

const completion = (change: Partial<Completion> = {}): Completion => ({
  kind: "text_completion",
  model: "org/model",
  stream: false,
  n: 1,
  maxTokens: 100,
  promptBytes: 50,
  messages: 1,
  usage: "merge",
  bytes: Buffer.from("{}"),
  fields: {},
  isRebuilt: false,
  task: undefined,
  ...change,
});
const trace = () => ({ requestId: "r1" as RequestId, model: undefined }) as unknown as Trace;
const ports = (available = nano(10n ** 15n)) => {
  const budgets = new FakeBudgets();
  budgets.available = available;
  return {
    budgets,
    discounts: { find: () => undefined },
    models: new FakeModels(),
    rates: new RateMeters({ defaults: defaultRateLimits }),
  };
};

describe("admission", () => {
  it("takes no turn of the event loop while the money is at hand", () => {
    expect(admit(ports(), ada, completion(), trace())).not.toBeInstanceOf(Promise);
  });

  it("holds the whole bound of the price: prompt bytes, template and every token that may be generated", () => {
    const deps = ports();
    const { inputTokensBound } = admit(deps, ada, completion({ n: 2 }), trace()) as Admission;
    expect(inputTokensBound).toBeGreaterThanOrEqual(50);
    expect(deps.budgets.holds[0]?.amount).toBe(ceilingOf(inputTokensBound, 200, servedModel().rates));
  });

  it("prices, holds and tickets at the rates after the discount", () => {
    const discount = { id: "d", basisPoints: 2_500 } as Discount;
    const deps = { ...ports(), discounts: { find: () => discount } };
    const { rates, discountId, inputTokensBound } = admit(deps, ada, completion(), trace()) as Admission;
    const { input, output } = servedModel().rates;
    expect(discountId).toBe("d");
    expect(rates).toMatchObject({ input: (input * 3n) / 4n, output: (output * 3n) / 4n });
    expect(deps.budgets.holds[0]?.amount).toBe(ceilingOf(inputTokensBound, 100, rates));
  });

  it("bounds an answer without max_tokens by the context and by 16384", () => {
    const deps = ports();
    expect((admit(deps, ada, completion({ maxTokens: undefined }), trace()) as Admission).maxTokens).toBe(4096);
    deps.models.models = [servedModel({ contextLength: 131_072 })];
    expect((admit(deps, ada, completion({ maxTokens: undefined }), trace()) as Admission).maxTokens).toBe(16_384);
    deps.models.models = [servedModel({ contextLength: 0 })];
    expect((admit(deps, ada, completion({ maxTokens: undefined }), trace()) as Admission).maxTokens).toBe(16_384);
  });

  it("never lets more tokens through than the hold pays for, and gives the hold back when it buys none", () => {
    fc.assert(
      fc.property(
        fc.bigInt(0n, 500_000n),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 5000 }),
        fc.integer({ min: 0, max: 9000 }),
        (available, n, maxTokens, promptBytes) => {
          const deps = ports(nano(available));
          const total = available;
          try {
            const admission = admit(deps, ada, completion({ n, maxTokens, promptBytes }), trace()) as Admission;
            expect(admission.maxTokens).toBeGreaterThan(0);
            expect(admission.maxTokens).toBeLessThanOrEqual(maxTokens);
            const worst = ceilingOf(admission.inputTokensBound, n * admission.maxTokens, servedModel().rates);
            expect(worst <= admission.hold.amount).toBe(true);
          } catch (error) {
            expect((error as { code?: string }).code).toBe("insufficient_quota");
            expect(deps.budgets.available).toBe(total);
          }
        },
      ),
    );
  });

  it("asks for nothing when the model is unknown or the account suspended", () => {
    const deps = ports();
    expect(() => admit(deps, ada, completion({ model: "x" }), trace())).toThrow(/not found/);
    expect(() => admit(deps, { ...ada, suspendReason: "balance" }, completion(), trace())).toThrow(/suspended/);
    expect(() => admit(deps, { ...ada, suspendReason: "admin" }, completion(), trace())).toThrow(/operator/);
    expect(deps.budgets.holds).toEqual([]);
  });
});
