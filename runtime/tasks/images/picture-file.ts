// Pictures as files and as numbers: what a request brings, and what is answered.
import sharp from "sharp";
import { openPicture, undecodable } from "../../onnx/image-processor.ts";

/** 8-bit RGB, and how opaque each pixel is. */
export interface Canvas {
  readonly width: number;
  readonly height: number;
  readonly rgb: Uint8Array;
  /** Undefined where the file has no such channel. */
  readonly alpha: Uint8Array | undefined;
}

export const pictureFormats = ["png", "jpeg", "webp"] as const;
export type PictureFormat = (typeof pictureFormats)[number];

const usualQuality = 90;

/** Throws PictureError. */
export async function decodeCanvas(bytes: Buffer): Promise<Canvas> {
  const picture = openPicture(bytes);
  try {
    const { hasAlpha } = await picture.metadata();
    const { data, info } = await picture.ensureAlpha().raw().toBuffer({ resolveWithObject: true });
    return { width: info.width, height: info.height, ...parted(data, info.channels, hasAlpha) };
  } catch (error) {
    throw undecodable(error);
  }
}

export async function scaledCanvas(canvas: Canvas, width: number, height: number): Promise<Canvas> {
  if (canvas.width === width && canvas.height === height) return canvas;
  const scale = async (data: Uint8Array, channels: 1 | 3, kernel: "nearest" | "lanczos3") =>
    new Uint8Array(
      await sharp(data, { raw: { width: canvas.width, height: canvas.height, channels } })
        .resize(width, height, { fit: "fill", kernel })
        .toColourspace(channels === 1 ? "b-w" : "srgb")
        .raw()
        .toBuffer(),
    );
  return {
    width,
    height,
    rgb: await scale(canvas.rgb, 3, "lanczos3"),
    alpha: canvas.alpha && (await scale(canvas.alpha, 1, "nearest")),
  };
}

export function encodePicture(rgb: Uint8Array, width: number, height: number, format: PictureFormat): Promise<Buffer> {
  const picture = sharp(rgb, { raw: { width, height, channels: 3 } });
  switch (format) {
    case "png":
      return picture.png().toBuffer();
    case "jpeg":
      return picture.jpeg({ quality: usualQuality }).toBuffer();
    case "webp":
      return picture.webp({ quality: usualQuality }).toBuffer();
    default:
      return format satisfies never;
  }
}

/** By planes, from -1 to 1, as the graphs take them. */
export function planesOf(rgb: Uint8Array): Float32Array {
  const size = rgb.length / 3;
  const planes = new Float32Array(rgb.length);
  for (let at = 0; at < size; at++)
    for (let plane = 0; plane < 3; plane++) planes[plane * size + at] = (rgb[at * 3 + plane] as number) / 127.5 - 1;
  return planes;
}

export function rgbOf(planes: Float32Array): Uint8Array {
  const size = planes.length / 3;
  const rgb = new Uint8ClampedArray(planes.length);
  for (let at = 0; at < size; at++)
    for (let plane = 0; plane < 3; plane++) rgb[at * 3 + plane] = ((planes[plane * size + at] as number) + 1) * 127.5;
  return new Uint8Array(rgb.buffer);
}

/** Share `repainted` of the first and the rest of the second, by pixel. */
export function blended(painted: Uint8Array, given: Uint8Array, repainted: Float32Array): Uint8Array {
  return painted.map((value, at) => {
    const share = repainted[Math.floor(at / 3)] as number;
    return Math.round(share * value + (1 - share) * (given[at] as number));
  });
}

function parted(data: Buffer, channels: number, hasAlpha: boolean): Pick<Canvas, "rgb" | "alpha"> {
  const size = data.length / channels;
  const rgb = new Uint8Array(size * 3);
  const alpha = new Uint8Array(size);
  for (let at = 0; at < size; at++) {
    // One channel is grey, beside it how opaque it is.
    for (let plane = 0; plane < 3; plane++)
      rgb[at * 3 + plane] = data[at * channels + (channels < 3 ? 0 : plane)] as number;
    alpha[at] = data[at * channels + channels - 1] as number;
  }
  return { rgb, alpha: hasAlpha ? alpha : undefined };
}
