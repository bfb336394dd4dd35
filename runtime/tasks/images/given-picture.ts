// Reads a request's picture and the part of it to be painted again. Throws RequestError.
import { unusable } from "../../server/request-error.ts";
import { refusePicture } from "../image-input.ts";
import { decodeCanvas, scaledCanvas } from "./picture-file.ts";

export interface GivenPicture {
  readonly rgb: Uint8Array;
  /** Share of each pixel that is painted again, 0 to 1; undefined: the whole picture. */
  readonly repainted: Float32Array | undefined;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

/** Shapes that differ by less are the same, rounded to whole pixels. */
const shapeTolerance = 0.02;

/** At the size that is painted. `mask`: its transparent part is painted again; without one, that of the picture itself. */
export async function givenPicture(bytes: Buffer, mask: Buffer | undefined, size: Size): Promise<GivenPicture> {
  const picture = await decodeCanvas(bytes).catch((error) => refusePicture(error, "image"));
  const shape = (one: Size) => one.width / one.height;
  if (Math.abs(shape(picture) / shape(size) - 1) > shapeTolerance)
    throw unusable(
      "image",
      `the picture is ${picture.width}x${picture.height} and ${size.width}x${size.height} has another shape; cut it, or name a size of its shape`,
    );
  const { rgb, alpha } = await scaledCanvas(picture, size.width, size.height);
  if (mask === undefined)
    return { rgb, repainted: alpha?.some((value) => value < 255) ? seenThrough(alpha) : undefined };
  const cover = await decodeCanvas(mask).catch((error) => refusePicture(error, "mask"));
  if (cover.width !== picture.width || cover.height !== picture.height)
    throw unusable(
      "mask",
      `the mask is ${cover.width}x${cover.height} and the picture ${picture.width}x${picture.height}; both must have one size`,
    );
  const fitted = await scaledCanvas(cover, size.width, size.height);
  if (!fitted.alpha?.some((value) => value < 255))
    throw unusable("mask", "nothing of the mask is transparent, and only what is transparent is repainted");
  return { rgb, repainted: seenThrough(fitted.alpha) };
}

/** 1 for each latent with at least one pixel that is painted again. */
export function latentMask(repainted: Float32Array, { width, height }: Size, factor: number): Float32Array {
  const across = width / factor;
  const mask = new Float32Array(across * (height / factor));
  for (const [at, share] of repainted.entries()) {
    const cell = Math.floor(Math.floor(at / width) / factor) * across + Math.floor((at % width) / factor);
    if (share > 0) mask[cell] = 1;
  }
  return mask;
}

const seenThrough = (alpha: Uint8Array) => Float32Array.from(alpha, (value) => 1 - value / 255);
