// Writes GGUF files of version 3 with weights of float32: what a small synthetic model needs.
// Source of the layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

export type MetadataValue =
  | { readonly uint32: number }
  | { readonly float32: number }
  | { readonly bool: boolean }
  | { readonly string: string }
  | { readonly strings: readonly string[] }
  | { readonly int32s: readonly number[] };

export interface GgufTensor {
  readonly name: string;
  /** The innermost first, as ggml counts them. */
  readonly dims: readonly number[];
  readonly data: Float32Array;
}

const alignment = 32;
const kinds = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 } as const;
const floatTensor = 0;

const number = (size: number, write: (bytes: Buffer) => void): Buffer => {
  const bytes = Buffer.alloc(size);
  write(bytes);
  return bytes;
};
const u32 = (value: number) => number(4, (bytes) => bytes.writeUInt32LE(value));
const i32 = (value: number) => number(4, (bytes) => bytes.writeInt32LE(value));
const f32 = (value: number) => number(4, (bytes) => bytes.writeFloatLE(value));
const u64 = (value: number) => number(8, (bytes) => bytes.writeBigUInt64LE(BigInt(value)));
const text = (value: string) => {
  const bytes = Buffer.from(value);
  return Buffer.concat([u64(bytes.length), bytes]);
};

function encoded(value: MetadataValue): Buffer {
  if ("uint32" in value) return Buffer.concat([u32(kinds.uint32), u32(value.uint32)]);
  if ("float32" in value) return Buffer.concat([u32(kinds.float32), f32(value.float32)]);
  if ("bool" in value) return Buffer.concat([u32(kinds.bool), Buffer.from([value.bool ? 1 : 0])]);
  if ("string" in value) return Buffer.concat([u32(kinds.string), text(value.string)]);
  const [kind, items] =
    "strings" in value ? [kinds.string, value.strings.map(text)] : [kinds.int32, value.int32s.map(i32)];
  return Buffer.concat([u32(kinds.array), u32(kind), u64(items.length), ...items]);
}

const padded = (bytes: Buffer): Buffer =>
  Buffer.concat([bytes, Buffer.alloc((alignment - (bytes.length % alignment)) % alignment)]);

export function ggufFile(metadata: Readonly<Record<string, MetadataValue>>, tensors: readonly GgufTensor[]): Buffer {
  const facts = Object.entries(metadata).map(([key, value]) => Buffer.concat([text(key), encoded(value)]));
  const data = tensors.map((tensor) =>
    padded(Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength)),
  );
  let offset = 0;
  const table = tensors.map(({ name, dims }, i) => {
    const at = offset;
    offset += (data[i] as Buffer).length;
    return Buffer.concat([text(name), u32(dims.length), ...dims.map(u64), u32(floatTensor), u64(at)]);
  });
  const head = Buffer.concat([Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(facts.length), ...facts, ...table]);
  return Buffer.concat([padded(head), ...data]);
}
