// A graph over pictures and its batches.
import { MicroBatcher } from "../batch/micro-batcher.ts";
import { checkIo, type IoNeed } from "../onnx/check-io.ts";
import { type ImageProcessor, openImageProcessor, type Picture } from "../onnx/image-processor.ts";
import { graphOf, type ModelFolder } from "../onnx/model-folder.ts";
import { isMemoryFailure, SessionError, type TensorValue } from "../onnx/session.ts";
import type { TaskCall } from "../server/engine.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";

/** One picture's part of each output, its first dimension 1. */
export type ImageOutputs = Readonly<Record<string, TensorValue>>;
type ImageInputs = Awaited<ReturnType<ImageProcessor>>;

export interface ImageGraph {
  readonly load: OpenTask["load"];
  run(picture: Picture, call: TaskCall): Promise<ImageOutputs>;
}

const inputs: readonly IoNeed[] = [
  { name: "pixel_values", types: ["float32"], rank: 4 },
  { name: "pixel_mask", types: ["int64"], rank: 3 },
];
/** Fixed cost of a run, in values of the picture's tensor. */
const perRunValues = 50_000;
const maxValues = 16 * 1024 * 1024;

export async function openImageGraph(
  deps: TaskDeps,
  folder: ModelFolder,
  task: { readonly name: string; readonly outputs: readonly IoNeed[] },
): Promise<ImageGraph> {
  const graph = graphOf(folder);
  const processor = await openImageProcessor(folder);
  const session = await deps.graphs.open(folder, graph);
  for (const output of task.outputs)
    checkIo(graph, task.name, session, { known: inputs, required: ["pixel_values"], outputs: [output] });
  const fetched = task.outputs.map(({ name }) => name);
  const wanted = session.inputs.map(({ name }) => name);
  const batcher = new MicroBatcher<ImageInputs, ImageOutputs>({
    maxBatchSize: deps.maxBatchSize,
    latencyBudgetMs: deps.latencyBudgetMs,
    costs: { perRun: perRunValues, maxTokens: maxValues },
    lengthOf: (item) => item["pixel_values"]?.data.length ?? 1,
    run: async (items) => {
      const feeds = Object.fromEntries(
        wanted.map((name) => [
          name,
          stacked(
            items.map((item) => item[name]),
            name,
          ),
        ]),
      );
      const outputs = await session.run(feeds, fetched);
      return items.map((_, row) =>
        Object.fromEntries(fetched.map((name) => [name, rowOf(outputs[name] as TensorValue, row)])),
      );
    },
    isMemoryFailure,
    observe: deps.observe,
  });
  return {
    load: () => batcher,
    async run(picture, call) {
      call.usage.units = { items: 1 };
      const [outputs] = await batcher.submit([await processor(picture)], call.signal);
      return outputs as ImageOutputs;
    },
  };
}

/** Pictures of one size as one tensor; of several sizes none: they then run in halves, one size by itself. */
function stacked(tensors: readonly (TensorValue | undefined)[], name: string): TensorValue {
  const [first] = tensors;
  if (!first || tensors.some((one) => one?.dims.join() !== first.dims.join()))
    throw new SessionError(`the pictures' ${name} differ in size`);
  if (tensors.length === 1) return first;
  const size = first.data.length;
  const data =
    first.type === "int64" ? new BigInt64Array(size * tensors.length) : new Float32Array(size * tensors.length);
  for (const [row, one] of tensors.entries()) data.set(one?.data as never, row * size);
  return { type: first.type, data, dims: [tensors.length, ...first.dims.slice(1)] };
}

function rowOf({ type, data, dims }: TensorValue, row: number): TensorValue {
  const size = data.length / (dims[0] ?? 1);
  return { type, data: data.slice(row * size, (row + 1) * size), dims: [1, ...dims.slice(1)] };
}
