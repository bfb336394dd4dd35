// Tensor bytes for a GGUF file: BF16 becomes F32 (llama.cpp's adapters do not support BF16), and values that must be
// scaled become F32 too. Pure; little endian on both sides.
import type { FloatTensor } from "./safetensors.ts";

export interface StoredFloats {
  readonly type: "F32" | "F16";
  readonly bytes: Uint8Array;
}

export function storedFloats(tensor: FloatTensor, factor = 1): StoredFloats {
  const { type, bytes } = tensor;
  if (factor === 1 && type !== "BF16") return { type, bytes };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const floats = new Float32Array(bytes.byteLength / (type === "F32" ? 4 : 2));
  if (type === "BF16") widen(view, floats);
  else if (type === "F16") for (let i = 0; i < floats.length; i++) floats[i] = view.getFloat16(i * 2, true);
  else for (let i = 0; i < floats.length; i++) floats[i] = view.getFloat32(i * 4, true);
  if (factor !== 1) for (let i = 0; i < floats.length; i++) floats[i] = factor * (floats[i] as number);
  return { type: "F32", bytes: new Uint8Array(floats.buffer) };
}

/** A BF16 is the upper half of a float32. */
function widen(view: DataView, floats: Float32Array<ArrayBuffer>): void {
  const words = new Uint32Array(floats.buffer);
  for (let i = 0; i < words.length; i++) words[i] = view.getUint16(i * 2, true) << 16;
}

/** Rows of `width` bytes in a new order: row `i` of the answer is row `oldRow(i)` of the input. */
export function reorderRows(bytes: Uint8Array, width: number, oldRow: (row: number) => number): Uint8Array {
  const out = new Uint8Array(bytes.byteLength);
  for (let row = 0; row * width < bytes.byteLength; row++) {
    const from = oldRow(row) * width;
    out.set(bytes.subarray(from, from + width), row * width);
  }
  return out;
}
