// Recognises a GGUF file and writes one of version 3, little endian.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
import { open } from "node:fs/promises";

export type MetadataValue =
  | { readonly kind: "string"; readonly value: string }
  | { readonly kind: "float32"; readonly value: number };

export interface GgufTensor {
  readonly name: string;
  readonly type: "F32" | "F16";
  /** Fastest dimension first. */
  readonly dimensions: readonly number[];
  readonly bytes: Uint8Array;
}

const alignment = 32;
const [typeString, typeFloat32] = [8, 6];
const tensorTypes = { F32: 0, F16: 1 } as const;

/** Returns true if the file begins like one. Throws what the file system throws. */
export async function isGguf(path: string): Promise<boolean> {
  const file = await open(path, "r");
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0).finally(() => file.close());
  return bytesRead === 4 && buffer.toString("latin1") === "GGUF";
}

export function writeGguf(
  metadata: Readonly<Record<string, MetadataValue>>,
  tensors: readonly GgufTensor[],
): Uint8Array {
  const head: Uint8Array[] = [Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(Object.keys(metadata).length)];
  for (const [key, entry] of Object.entries(metadata)) {
    head.push(text(key));
    if (entry.kind === "string") head.push(u32(typeString), text(entry.value));
    else head.push(u32(typeFloat32), f32(entry.value));
  }
  let offset = 0;
  for (const { name, type, dimensions, bytes } of tensors) {
    head.push(text(name), u32(dimensions.length), ...dimensions.map(u64), u32(tensorTypes[type]), u64(offset));
    offset += aligned(bytes.byteLength);
  }
  const headBytes = Buffer.concat(head);
  const dataAt = aligned(headBytes.byteLength);
  const file = new Uint8Array(dataAt + offset);
  file.set(headBytes);
  let at = dataAt;
  for (const { bytes } of tensors) {
    file.set(bytes, at);
    at += aligned(bytes.byteLength);
  }
  return file;
}

const aligned = (bytes: number) => Math.ceil(bytes / alignment) * alignment;

// Little endian, as every machine that llama.cpp is built for here.
const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const f32 = (value: number) => Buffer.from(Float32Array.of(value).buffer);

function text(value: string): Uint8Array {
  const bytes = Buffer.from(value, "utf8");
  return Buffer.concat([u64(bytes.byteLength), bytes]);
}
