import { describe, expect, it } from "vitest";
import { images } from "../../../../../../control-plane/http/inference/tasks/images.ts";
import { pricedPixels, type UnitRates } from "../../../../../../proto/money.ts";

const priceOf = (steps: number): UnitRates => ({
  characters: 0n,
  audio: 0n,
  images: 1n,
  imageUnit: BigInt(steps * pricedPixels),
});
const unitsOf = (steps: number | undefined, rates: UnitRates | undefined) => {
  const request = { model: "a/brush", n: 2, width: 64, height: 32, steps, fields: {} };
  return images(request).task?.units(rates);
};

describe("the steps of an image", () => {
  it("are those of the request", () => {
    expect(unitsOf(8, priceOf(20))?.most.imagePixelSteps).toBe(2 * 64 * 32 * 8);
  });

  it("are otherwise those that the price refers to", () => {
    expect(unitsOf(undefined, priceOf(20))?.most.imagePixelSteps).toBe(2 * 64 * 32 * 20);
  });

  it("are bounded by nothing where neither names them, so that the engine's own default is accepted", () => {
    expect(unitsOf(undefined, priceOf(0))?.most).toMatchObject({ images: 2, imagePixelSteps: 0 });
    expect(unitsOf(undefined, undefined)?.most.imagePixelSteps).toBe(0);
  });
});
