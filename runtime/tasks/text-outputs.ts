// A batch's outputs by item. Pure.
import type { TensorValue } from "../onnx/session.ts";
import type { TokenBatch } from "./text-graph.ts";

/** Splits [rows, width] into one row per item. */
export function logitRows(output: TensorValue, { items }: TokenBatch): Float32Array[] {
  const width = output.dims.at(-1) ?? 0;
  return items.map((_, row) => (output.data as Float32Array).slice(row * width, (row + 1) * width));
}

/** Splits [rows, longest, width] into the rows of each item's tokens, without padding. */
export function logitsByToken(output: TensorValue, { items, longest }: TokenBatch): Float32Array[][] {
  const width = output.dims.at(-1) ?? 0;
  const data = output.data as Float32Array;
  return items.map(({ ids }, row) =>
    ids.map((_, at) => {
      const start = (row * longest + at) * width;
      return data.slice(start, start + width);
    }),
  );
}

/** Splits [rows, longest] into one number per token of each item. */
export function numberByToken(output: TensorValue, { items, longest }: TokenBatch): Float32Array[] {
  const data = output.data as Float32Array;
  return items.map(({ ids }, row) => data.slice(row * longest, row * longest + ids.length));
}
