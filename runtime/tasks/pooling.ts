// From a vector per token to one per text. Pure.
// Source: the pooling and normalising modules of sentence-transformers.
import type { TensorValue } from "../onnx/session.ts";
import type { TokenBatch } from "./text-graph.ts";

export type Pooling = "mean" | "cls" | "max" | "last";

/** `output`: [rows, longest, width], or [rows, width] of a graph that pools by itself. */
export function pool(output: TensorValue, { items, longest }: TokenBatch, pooling: Pooling): Float32Array[] {
  const width = output.dims.at(-1) ?? 0;
  const values = output.data as Float32Array;
  if (output.dims.length === 2) return items.map((_, row) => values.slice(row * width, (row + 1) * width));
  return items.map(({ ids }, row) => {
    const start = row * longest * width;
    return poolTokens(values.subarray(start, start + ids.length * width), ids.length, width, pooling);
  });
}

/** `values`: `count` tokens of `width` numbers. Plain loops over one array: this is all that a text costs after its run. */
function poolTokens(values: Float32Array, count: number, width: number, pooling: Pooling): Float32Array {
  switch (pooling) {
    case "cls":
      return values.slice(0, width);
    case "last":
      return values.slice((count - 1) * width);
    case "max": {
      const max = values.slice(0, width);
      for (let at = width; at < values.length; at += width)
        for (let i = 0; i < width; i++) max[i] = Math.max(max[i] as number, values[at + i] as number);
      return max;
    }
    case "mean": {
      const sum = new Float64Array(width);
      for (let at = 0; at < values.length; at += width)
        for (let i = 0; i < width; i++) sum[i] = (sum[i] as number) + (values[at + i] as number);
      const mean = new Float32Array(width);
      for (let i = 0; i < width; i++) mean[i] = (sum[i] as number) / count;
      return mean;
    }
  }
}

/** Normalizes and truncates as requested. `isUsuallyNormalized`: default of a request that does not specify it. */
export function shaped(
  vector: Float32Array,
  { normalize, dimensions }: { readonly normalize: boolean | undefined; readonly dimensions: number | undefined },
  isUsuallyNormalized: boolean,
): Float32Array {
  const isNormalized = normalize ?? isUsuallyNormalized;
  const whole = isNormalized ? normalized(vector) : vector;
  return dimensions === undefined ? whole : resized(whole, dimensions, isNormalized);
}

/** To length one; a vector of zeros stays one. */
export function normalized(vector: Float32Array): Float32Array {
  let square = 0;
  for (let i = 0; i < vector.length; i++) square += (vector[i] as number) ** 2;
  const length = Math.sqrt(square);
  if (length <= 1e-12) return vector;
  const unit = new Float32Array(vector.length);
  for (let i = 0; i < vector.length; i++) unit[i] = (vector[i] as number) / length;
  return unit;
}

/** The first `dimensions`, of length one again where the whole was; zeros where the model gives fewer. */
export function resized(vector: Float32Array, dimensions: number, isNormalized: boolean): Float32Array {
  if (dimensions === vector.length) return vector;
  const out = new Float32Array(dimensions);
  out.set(vector.subarray(0, dimensions));
  return isNormalized && dimensions < vector.length ? normalized(out) : out;
}
