import fc from "fast-check";
import { expect, it } from "vitest";
import { costOf } from "../../../proto/money.ts";
import { decodeUnits, decodeUsage, encodeUsage } from "../../../proto/usage.ts";

const count = fc.nat({ max: 2 ** 40 });
const units = fc.record({ characters: count, audioMs: count, images: count, imagePixelSteps: count, items: count });

it("figures of every kind come out of a header as they went in", () => {
  const tokens = { input: 3, cachedInput: 1, output: 5, reasoning: 2, source: "engine", endReason: "stop" } as const;
  expect(decodeUsage(encodeUsage(tokens))).toEqual(tokens);
  fc.assert(
    fc.property(units, (some) => {
      expect(decodeUsage(encodeUsage({ ...tokens, units: some }))).toEqual({ ...tokens, units: some });
    }),
  );
});

it("rejects an engine's header that is not valid usage", () => {
  expect(decodeUnits(" characters=12 , audio_ms=7,colour=3")).toMatchObject({ characters: 12, audioMs: 7 });
  for (const text of ["", "characters", "characters=-1", "characters=1e99", "characters=x", "__proto__=1", "colour=2"])
    expect(decodeUnits(text)).toBeUndefined();
});

it("rounds a price of tokens and units once", () => {
  const none = { characters: 0, audioMs: 0, images: 0, imagePixelSteps: 0, items: 5 };
  const rates = { input: 300_000n, cachedInput: 0n, output: 0n };
  const unitRates = { characters: 300_000n, audio: 0n, images: 0n, imageUnit: 0n };
  // 0.3 and 0.3 nano-USD: apart they round to nothing, together to one.
  const tokens = { input: 1, cachedInput: 0, output: 0 };
  expect(costOf(tokens, rates)).toBe(0n);
  expect(costOf({ ...tokens, units: { ...none, characters: 1 } }, { ...rates, units: unitRates })).toBe(1n);
});
