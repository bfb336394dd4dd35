import { describe, expect, it } from "vitest";
import { ratesAt, servedTier } from "../../../../control-plane/inference/service-tier.ts";
import { servedModel } from "../../../fakes/ports.ts";

describe("service tier", () => {
  it.each([
    ["priority", true, "priority"],
    ["priority", false, "default"],
    ["flex", false, "flex"],
    ["auto", true, "default"],
    ["default", true, "default"],
    ["standard_only", true, "default"],
    ["batch", true, "default"],
    [undefined, true, "default"],
    [null, false, "default"],
  ])("of %s, with priority allowed: %s, is %s", (asked, mayPrioritize, served) => {
    expect(servedTier(asked, { mayPrioritize })).toBe(served);
  });

  it("has its own price, and that of the model where none is set", () => {
    const rates = { input: 100n, cachedInput: 51n, output: 1_000n };
    const model = servedModel({ rates });
    expect(ratesAt("priority", model)).toBe(rates);
    const priced = { ...model, tierPercents: { priority: 250, flex: 50 } };
    expect(ratesAt("priority", priced)).toEqual({ input: 250n, cachedInput: 128n, output: 2_500n });
    expect(ratesAt("flex", priced)).toEqual({ input: 50n, cachedInput: 26n, output: 500n });
    expect(ratesAt("batch", priced)).toBe(rates);
  });
});
