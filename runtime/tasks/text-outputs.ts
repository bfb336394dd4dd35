// A batch's outputs by item. Pure.
import type { TensorValue } from "../onnx/session.ts";
import type { TokenBatch } from "./text-graph.ts";

/** Of [rows, width]: what each item got. */
export function logitRows(output: TensorValue, { items }: TokenBatch): Float32Array[] {
  const width = output.dims.at(-1) ?? 0;
  return items.map((_, row) => (output.data as Float32Array).slice(row * width, (row + 1) * width));
}

/** Of [rows, longest, width]: what each token of each item got, padding left out. */
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

/** Of [rows, longest]: a number per token of each item. */
export function numberByToken(output: TensorValue, { items, longest }: TokenBatch): Float32Array[] {
  const data = output.data as Float32Array;
  return items.map(({ ids }, row) => data.slice(row * longest, row * longest + ids.length));
}
