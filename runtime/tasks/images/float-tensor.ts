// Numbers between this code, which counts in float32, and a graph that may take halves or whole numbers.
import type { TensorValue } from "../../onnx/session.ts";

export function tensorOf(type: string, values: Float32Array, dims: readonly number[]): TensorValue {
  switch (type) {
    case "float32":
      return { type, data: values, dims };
    case "float64":
      return { type, data: Float64Array.from(values), dims };
    case "float16":
      return { type, data: halves(values), dims };
    case "int64":
      return { type, data: BigInt64Array.from(values, (value) => BigInt(Math.round(value))), dims };
    case "int32":
      return { type, data: Int32Array.from(values, Math.round), dims };
    default:
      throw new TypeError(`tensors of ${type} are not made here`);
  }
}

export function floatsOf({ type, data }: TensorValue): Float32Array {
  if (data instanceof Float32Array) return data;
  if (type === "float16" && data instanceof Uint16Array) return fromHalves(data);
  return Float32Array.from(data as Iterable<number | bigint>, Number);
}

function halves(values: Float32Array): Uint16Array {
  const out = new DataView(new ArrayBuffer(values.length * 2));
  for (let i = 0; i < values.length; i++) out.setFloat16(i * 2, values[i] as number, true);
  return new Uint16Array(out.buffer);
}

function fromHalves(data: Uint16Array): Float32Array {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Float32Array.from({ length: data.length }, (_, i) => view.getFloat16(i * 2, true));
}
