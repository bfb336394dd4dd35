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
    const tokens = ids.map((_, at) => values.subarray(start + at * width, start + (at + 1) * width));
    return poolTokens(tokens, width, pooling);
  });
}

function poolTokens(tokens: readonly Float32Array[], width: number, pooling: Pooling): Float32Array {
  switch (pooling) {
    case "cls":
      return (tokens[0] as Float32Array).slice();
    case "last":
      return (tokens.at(-1) as Float32Array).slice();
    case "max": {
      const most = (tokens[0] as Float32Array).slice();
      for (const token of tokens)
        for (let i = 0; i < width; i++) most[i] = Math.max(most[i] as number, token[i] as number);
      return most;
    }
    case "mean": {
      const sum = new Float64Array(width);
      for (const token of tokens) for (let i = 0; i < width; i++) sum[i] = (sum[i] as number) + (token[i] as number);
      return Float32Array.from(sum, (value) => value / tokens.length);
    }
  }
}

/** To length one; a vector of zeros stays one. */
export function normalized(vector: Float32Array): Float32Array {
  let square = 0;
  for (const value of vector) square += value * value;
  const length = Math.sqrt(square);
  return length > 1e-12 ? vector.map((value) => value / length) : vector;
}

/** The first `dimensions`, of length one again where the whole was; zeros where the model gives fewer. */
export function resized(vector: Float32Array, dimensions: number, isNormalized: boolean): Float32Array {
  if (dimensions === vector.length) return vector;
  const out = new Float32Array(dimensions);
  out.set(vector.subarray(0, dimensions));
  return isNormalized && dimensions < vector.length ? normalized(out) : out;
}
