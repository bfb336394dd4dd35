// Writes ONNX files: protobuf by hand, just what small graphs need. A model file is a message, and messages that stand one
// after the other are merged by whoever reads them: a head for a real model is bytes behind its file.
// Source of the field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto

type Part = Buffer;

function varint(value: number | bigint): Buffer {
  const bytes: number[] = [];
  // Negative numbers are written as 64 bits of two's complement.
  let rest = BigInt.asUintN(64, BigInt(value));
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest > 0n ? low | 0x80 : low);
  } while (rest > 0n);
  return Buffer.from(bytes);
}

export const bytesField = (number: number, bytes: Uint8Array): Part =>
  Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
export const text = (number: number, value: string): Part => bytesField(number, Buffer.from(value));
const int = (number: number, value: number | bigint): Part => Buffer.concat([varint(number << 3), varint(value)]);
const float = (number: number, value: number): Part => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([varint((number << 3) | 5), bytes]);
};
const message = (...parts: readonly Part[]): Buffer => Buffer.concat(parts);

const elementTypes = { float32: 1, uint8: 2, int64: 7, bool: 9 } as const;
type ElementType = keyof typeof elementTypes;

export type Attribute = number | readonly number[] | string | { readonly float: number };

export interface Node {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Readonly<Record<string, Attribute>>;
  readonly domain?: string;
}

export interface Weight {
  readonly name: string;
  readonly dims: readonly number[];
  readonly data: Float32Array | BigInt64Array;
  /** Kept in this file instead of the graph. */
  readonly external?: string;
}

export interface Io {
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly (number | string)[];
}

export interface Graph {
  readonly inputs?: readonly Io[];
  readonly outputs?: readonly Io[];
  readonly nodes?: readonly Node[];
  readonly weights?: readonly Weight[];
}

function attributeBytes(name: string, value: Attribute): Buffer {
  if (typeof value === "number") return message(text(1, name), int(3, value), int(20, 2));
  if (typeof value === "string") return message(text(1, name), text(4, value), int(20, 3));
  if ("float" in value) return message(text(1, name), float(2, value.float), int(20, 1));
  return message(text(1, name), ...value.map((one) => int(8, one)), int(20, 7));
}

function nodeBytes({ op, inputs, outputs, attributes = {}, domain }: Node): Buffer {
  return message(
    ...inputs.map((name) => text(1, name)),
    ...outputs.map((name) => text(2, name)),
    text(4, op),
    ...Object.entries(attributes).map(([name, value]) => bytesField(5, attributeBytes(name, value))),
    ...(domain === undefined ? [] : [text(7, domain)]),
  );
}

function weightBytes({ name, dims, data, external }: Weight): Buffer {
  const type = data instanceof Float32Array ? elementTypes.float32 : elementTypes.int64;
  const raw = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const where =
    external === undefined
      ? [bytesField(9, raw)]
      : [bytesField(13, message(text(1, "location"), text(2, external))), int(14, 1)];
  return message(...dims.map((dim) => int(1, dim)), int(2, type), text(8, name), ...where);
}

export function ioBytes({ name, type, shape }: Io): Buffer {
  const dims = shape.map((dim) => bytesField(1, typeof dim === "number" ? int(1, dim) : text(2, dim)));
  const tensor = message(int(1, elementTypes[type]), bytesField(2, message(...dims)));
  return message(text(1, name), bytesField(2, bytesField(1, tensor)));
}

function graphBytes({ inputs = [], outputs = [], nodes = [], weights = [] }: Graph): Buffer {
  return message(
    ...nodes.map((node) => bytesField(1, nodeBytes(node))),
    ...weights.map((weight) => bytesField(5, weightBytes(weight))),
    ...inputs.map((io) => bytesField(11, ioBytes(io))),
    ...outputs.map((io) => bytesField(12, ioBytes(io))),
  );
}

/** A whole model file. */
export function onnxFile(graph: Graph, opset = 14): Buffer {
  return message(int(1, 8), bytesField(8, int(2, opset)), bytesField(7, message(text(2, "graph"), graphBytes(graph))));
}

/** What, behind a model file, adds to its graph. */
export function onnxAddition(graph: Graph): Buffer {
  return bytesField(7, graphBytes(graph));
}

/** The same numbers for the same seed everywhere: from -1 to 1. */
export function seededWeights(seed: number, size: number, scale = 1): Float32Array {
  let state = seed >>> 0 || 1;
  return Float32Array.from({ length: size }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return Math.fround((((state >>> 0) / 2 ** 32) * 2 - 1) * scale);
  });
}

/** Seeded weights. */
export const f32 = (name: string, dims: readonly number[], seed: number, scale: number): Weight => ({
  name,
  dims,
  data: seededWeights(
    seed,
    dims.reduce((a, b) => a * b, 1),
    scale,
  ),
});
export const i64 = (name: string, values: readonly number[], dims: readonly number[] = [values.length]): Weight => ({
  name,
  dims,
  data: BigInt64Array.from(values, BigInt),
});
/** A node with one output. */
export const node = (op: string, inputs: string[], output: string, attributes: Node["attributes"] = {}): Node => ({
  op,
  inputs,
  outputs: [output],
  attributes,
});
