// Pictures: decoded within bounds, and made into the tensor that the model was trained on.
import { AutoImageProcessor, env, RawImage } from "@huggingface/transformers";
import sharp, { type Sharp } from "sharp";
import { LoadFailure } from "../llama/load-failure.ts";
import type { ModelFolder } from "./model-folder.ts";
import type { TensorValue } from "./session.ts";

env.allowRemoteModels = false;

/** 8-bit RGB. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8ClampedArray;
}

export class PictureError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "PictureError";
  }
}

const maxPixels = 50_000_000;
/** Nothing that may name other files is decoded. */
const magics: readonly (readonly [name: string, at: number, bytes: string])[] = [
  ["png", 0, "89504e47"],
  ["jpeg", 0, "ffd8ff"],
  ["gif", 0, "47494638"],
  ["webp", 8, "57454250"],
];

/** Throws PictureError for what is no picture of a known kind. */
export function openPicture(bytes: Buffer): Sharp {
  const isKnown = magics.some(([, at, magic]) => bytes.toString("hex", at, at + magic.length / 2) === magic);
  if (!isKnown) throw new PictureError(`it is no ${magics.map(([name]) => name.toUpperCase()).join(", ")} file`);
  return sharp(bytes, { limitInputPixels: maxPixels }).rotate().toColourspace("srgb");
}

/** Throws PictureError. */
export async function decodePicture(bytes: Buffer): Promise<Picture> {
  const picture = openPicture(bytes);
  try {
    const { data, info } = await picture.removeAlpha().raw().toBuffer({ resolveWithObject: true });
    const { width, height, channels } = info;
    if (channels === 3) return { width, height, data: new Uint8ClampedArray(data) };
    const rgb = new Uint8ClampedArray(width * height * 3);
    for (let i = 0; i < width * height; i++) rgb.fill(data[i * channels] as number, i * 3, i * 3 + 3);
    return { width, height, data: rgb };
  } catch (error) {
    throw undecodable(error);
  }
}

export function undecodable(error: unknown): PictureError {
  const isLarge = /pixel limit/i.test((error as Error).message);
  return new PictureError(isLarge ? `it has more than ${maxPixels / 1e6} million pixels` : "it cannot be decoded");
}

/** The model's inputs of one picture, by their names in the graph. */
export type ImageProcessor = (picture: Picture) => Promise<Readonly<Record<string, TensorValue>>>;

/** Throws LoadFailure. */
export async function openImageProcessor(folder: ModelFolder): Promise<ImageProcessor> {
  const settings = await folder.json("preprocessor_config.json");
  if (Object.keys(settings).length === 0)
    throw new LoadFailure("no image processor", `${folder.root} holds no preprocessor_config.json`);
  const processor = await AutoImageProcessor.from_pretrained(folder.root, { local_files_only: true }).catch(
    (error: unknown) => {
      throw new LoadFailure("image processor not readable", (error as Error).message, { cause: error });
    },
  );
  return async ({ data, width, height }) => {
    const made = (await processor([new RawImage(data, width, height, 3)])) as Record<string, unknown>;
    const tensors = Object.entries(made).filter(([name]) => name === "pixel_values" || name === "pixel_mask");
    return Object.fromEntries(
      tensors.map(([name, tensor]) => {
        const { type, data: values, dims } = tensor as TensorValue;
        return [name, { type, data: values, dims: [...dims] }];
      }),
    );
  };
}
