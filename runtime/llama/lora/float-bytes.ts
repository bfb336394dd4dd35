// Tensor bytes as they stand in a GGUF file: BF16 becomes F32 (llama.cpp's adapters know no BF16), and values that must be
// scaled become F32 too. Pure; little endian on both sides.
import type { FloatTensor } from "./safetensors.ts";

export interface StoredFloats {
  readonly type: "F32" | "F16";
  readonly bytes: Uint8Array;
}

export function storedFloats(tensor: FloatTensor, factor = 1): StoredFloats {
  if (factor === 1 && tensor.type !== "BF16") return { type: tensor.type, bytes: tensor.bytes };
  const { bytes } = tensor;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = bytes.byteLength / (tensor.type === "F32" ? 4 : 2);
  const out = new DataView(new ArrayBuffer(count * 4));
  for (let i = 0; i < count; i++) out.setFloat32(i * 4, factor * valueAt(view, tensor.type, i), true);
  return { type: "F32", bytes: new Uint8Array(out.buffer) };
}

function valueAt(view: DataView, type: FloatTensor["type"], i: number): number {
  if (type === "F32") return view.getFloat32(i * 4, true);
  if (type === "F16") return view.getFloat16(i * 2, true);
  const wide = new DataView(new ArrayBuffer(4));
  wide.setUint16(2, view.getUint16(i * 2, true), true);
  return wide.getFloat32(0, true);
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
