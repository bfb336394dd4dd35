// Vectors on their way out.
import { RequestError } from "../server/request-error.ts";

const scale = 1e10;

/** A JSON list. Ten decimals hold a float32 of a vector of length one, and take half the bytes of all its digits. */
export function numbersText(values: Float32Array): string {
  let text = "[";
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (!Number.isFinite(value)) throw notFinite();
    if (i > 0) text += ",";
    text += Math.round(value * scale) / scale;
  }
  return `${text}]`;
}

/** Little-endian float32 bytes. */
export function base64Of(values: Float32Array): string {
  for (const value of values) if (!Number.isFinite(value)) throw notFinite();
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");
}

function notFinite(): RequestError {
  return new RequestError(500, "the model gave no usable numbers for this input; shorten it, or use another model");
}
