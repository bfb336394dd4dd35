// Vectors on their way out.
import { RequestError } from "../server/request-error.ts";

const scale = 1e10;
/** Ten decimals are two numbers of five, which the engine counts in machine integers. */
const half = 1e5;
/** `-0.` with ten decimals and the comma. */
const longest = 14;
const [minus, zero, point, comma] = ["-", "0", ".", ","].map((sign) => sign.charCodeAt(0)) as [
  number,
  number,
  number,
  number,
];
let scratch = Buffer.allocUnsafe(0);

/**
 * A JSON list. Ten decimals hold a float32 of a vector of length one, and take half the bytes of all its digits; the
 * digits are written as bytes, for text made of a number each costs the server's thread more than the whole request.
 */
export function numbersText(values: Float32Array): string {
  if (scratch.length < values.length * longest + 1) scratch = Buffer.allocUnsafe(values.length * longest + 1);
  const bytes = scratch;
  bytes[0] = "[".charCodeAt(0);
  let at = 1;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (!Number.isFinite(value)) throw notFinite();
    const scaled = Math.round(Math.abs(value) * scale);
    if (scaled >= scale) return plainText(values);
    at = writeNumber(bytes, at, value < 0, scaled);
    bytes[at++] = comma;
  }
  // The closing bracket replaces the last comma.
  return `${bytes.toString("latin1", 0, Math.max(1, at - 1))}]`;
}

/** Little-endian float32 bytes. */
export function base64Of(values: Float32Array): string {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i])) throw notFinite();
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");
}

/** `scaled`: from 0 to below `scale`. Returns where the next byte goes. */
function writeNumber(bytes: Uint8Array, start: number, isNegative: boolean, scaled: number): number {
  let at = start;
  if (isNegative && scaled > 0) bytes[at++] = minus;
  bytes[at++] = zero;
  if (scaled === 0) return at;
  bytes[at++] = point;
  const high = Math.floor(scaled / half) | 0;
  writeFive(bytes, at, high);
  writeFive(bytes, at + 5, (scaled - high * half) | 0);
  at += 10;
  while (bytes[at - 1] === zero) at--;
  return at;
}

function writeFive(bytes: Uint8Array, at: number, five: number): void {
  let left = five;
  for (let place = at + 4; place >= at; place--) {
    const rest = (left / 10) | 0;
    bytes[place] = zero + left - rest * 10;
    left = rest;
  }
}

/** For vectors that are not of length one. */
function plainText(values: Float32Array): string {
  let text = "[";
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (!Number.isFinite(value)) throw notFinite();
    if (i > 0) text += ",";
    text += Math.round(value * scale) / scale;
  }
  return `${text}]`;
}

function notFinite(): RequestError {
  return new RequestError(500, "the model gave no usable numbers for this input; shorten it, or use another model");
}
