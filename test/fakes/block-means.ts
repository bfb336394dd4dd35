// A picture of 64 x 64 as its 8 x 8 block means, and what they are with the adapter of image-adapter.ts by another program.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";

export interface ImageReference {
  readonly prompt: string;
  readonly steps: number;
  readonly block_means: readonly number[];
}

/** Written by test/fixtures/onnx/image_lora.py. */
export const imageReference: ImageReference = JSON.parse(
  readFileSync(join(import.meta.dirname, "../fixtures/onnx/image-lora.json"), "utf8"),
);

/** 0 to 1. */
export async function blockMeans(base64: string): Promise<readonly number[]> {
  const found = await sharp(Buffer.from(base64, "base64")).removeAlpha().raw().toBuffer();
  const means = Array<number>(64).fill(0);
  for (const [at, value] of found.entries()) {
    const [x, y] = [Math.floor(at / 3) % 64, Math.floor(at / 3 / 64)];
    const block = Math.floor(y / 8) * 8 + Math.floor(x / 8);
    means[block] = (means[block] as number) + value / 255 / 192;
  }
  return means;
}

export const apart = (a: readonly number[], b: readonly number[]) =>
  Math.max(...a.map((value, i) => Math.abs(value - (b[i] as number))));
