import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { noUnits } from "../../../proto/usage.ts";
import { extraInputTokens, isAllowedUsage } from "../../../proto/usage-bounds.ts";
import type { ReportedUsage } from "../../../proto/usage-record.ts";

const terms = { inputTokensBound: 100, maxTokens: 50, permits: 2 };
const usage: ReportedUsage = { input: 80, cachedInput: 10, output: 60, reasoning: 20 };

describe("usage of text", () => {
  it.each<[why: string, change: Partial<ReportedUsage>, isAllowed: boolean]>([
    ["ordinary figures", {}, true],
    ["nothing", { input: 0, cachedInput: 0, output: 0, reasoning: 0 }, true],
    ["all tokens of both sequences", { output: 100 }, true],
    ["one token more than the ticket allows", { output: 101 }, false],
    ["a template above the bound of the prompt", { input: 100 + extraInputTokens }, true],
    ["more than any template", { input: 101 + extraInputTokens }, false],
    ["the largest safe integer", { output: Number.MAX_SAFE_INTEGER }, false],
    ["a negative figure", { input: -1 }, false],
    ["a fraction", { output: 1.5 }, false],
    ["not a number", { output: Number.NaN }, false],
    ["infinity", { input: Number.POSITIVE_INFINITY }, false],
    ["more cached than prompt tokens", { cachedInput: 81 }, false],
    ["more reasoning than the ticket allows", { reasoning: 101 }, false],
    ["absurd units that text has none of", { units: { ...noUnits, audioMs: 2e9 } }, false],
  ])("%s: %o is allowed: %s", (_, change, isAllowed) => {
    expect(isAllowedUsage({ ...usage, ...change }, terms)).toBe(isAllowed);
  });

  it("never allows figures whose sums over a million records leave 64 bits", () => {
    const any = fc.oneof(fc.double(), fc.maxSafeInteger(), fc.integer());
    fc.assert(
      fc.property(any, any, any, any, (input, cachedInput, output, reasoning) => {
        if (!isAllowedUsage({ input, cachedInput, output, reasoning }, terms)) return;
        expect(Number.isInteger(input) && Number.isInteger(output)).toBe(true);
        expect(BigInt(input + output) * 1_000n * 1_000_000n).toBeLessThan(1n << 63n);
      }),
    );
  });
});

describe("usage of other tasks", () => {
  const most = { ...noUnits, audioMs: 60_000 };

  it("allows a unit up to what the hold covers", () => {
    const heard = (audioMs: number) => ({ ...usage, output: 0, reasoning: 0, units: { ...noUnits, audioMs } });
    const ticket = { ...terms, maxTokens: 0, units: { most } };
    expect(isAllowedUsage(heard(60_000), ticket)).toBe(true);
    expect(isAllowedUsage(heard(60_001), ticket)).toBe(false);
    expect(isAllowedUsage(heard(-1), ticket)).toBe(false);
  });

  it("limits units and tokens without a bound of their own", () => {
    const ticket = { ...terms, maxTokens: 0, units: { most } };
    const text = (output: number, characters: number) => ({ ...usage, output, units: { ...noUnits, characters } });
    expect(isAllowedUsage(text(60, 1e9), ticket)).toBe(true);
    expect(isAllowedUsage(text(60, 1e9 + 1), ticket)).toBe(false);
    expect(isAllowedUsage(text(101 + extraInputTokens, 0), ticket)).toBe(false);
  });
});
