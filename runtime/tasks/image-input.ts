// The picture of a request: its bytes are in the body, as base64 or as a data address.
import { decodePicture, type Picture, PictureError } from "../onnx/image-processor.ts";
import type { Fields } from "../server/fields.ts";
import { invalid, RequestError, unusable } from "../server/request-error.ts";

/** Throws RequestError. */
export async function readPicture(fields: Fields): Promise<Picture> {
  return decodePicture(pictureBytes(fields, "image")).catch((error) => refusePicture(error, "image", "picture"));
}

/** Rethrows a PictureError as RequestError. */
export function refusePicture(error: unknown, param: string, what = param): never {
  if (!(error instanceof PictureError)) throw error;
  throw new RequestError(400, `the ${what} cannot be used: ${error.message}`, { param, cause: error });
}

/** The bytes in the field. Throws RequestError. */
export function pictureBytes(fields: Fields, name: string): Buffer {
  const text = fields.string(name);
  if (text === undefined || text === "")
    throw invalid(name, `${name} is required: a picture as base64 or as a data: address`);
  if (/^https?:/i.test(text))
    throw unusable(name, "the model server opens no addresses; send the picture itself, as base64");
  const base64 = text.startsWith("data:") ? text.slice(text.indexOf(",") + 1) : text;
  const bytes = Buffer.from(base64, "base64");
  if (bytes.length === 0) throw invalid(name, `${name} is neither base64 nor a data: address with base64`);
  return bytes;
}
