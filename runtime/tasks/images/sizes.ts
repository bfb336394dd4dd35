// Sizes of pictures that a model generates. Pure.
import { unusable } from "../../server/request-error.ts";

export interface Sizes {
  readonly width: number;
  readonly height: number;
  /** Sides are a multiple of it; 0: only that size. */
  readonly step: number;
}

/** Far from what a model was trained on it repeats itself or falls apart. */
const widest = 2;

/** Throws RequestError; `param`: the field that named the size. */
export function checkSize(sizes: Sizes, width: number, height: number, param: string): void {
  const fits = (side: number, trained: number) =>
    sizes.step === 0
      ? side === trained
      : side % sizes.step === 0 && side >= trained / widest && side <= trained * widest;
  if (fits(width, sizes.width) && fits(height, sizes.height)) return;
  throw unusable(param, `this model makes no pictures of ${width}x${height}; ${sizesText(sizes)}`, "unsupported_size");
}

function sizesText({ width, height, step }: Sizes): string {
  if (step === 0) return `it makes ${width}x${height} alone: name that size`;
  const range = (side: number) => `${Math.ceil(side / widest / step) * step} to ${side * widest}`;
  const sides =
    width === height ? `sides from ${range(width)}` : `widths from ${range(width)} and heights from ${range(height)}`;
  return `it makes ${width}x${height} best, and ${sides} in steps of ${step}: name one of these sizes`;
}
