// The three graphs of a model that reads pictures: pictures -> features, tokens -> embeddings, embeddings -> the next token.
// The decoder's memory of a text stays with the graph, and each step creates a new one: a memory can be continued twice.
import { LoadFailure } from "../../llama/load-failure.ts";
import { checkIo, type IoNeed } from "../../onnx/check-io.ts";
import type { ModelFolder } from "../../onnx/model-folder.ts";
import type { TensorRef, TensorValue } from "../../onnx/session.ts";
import type { Tiles } from "../../onnx/tile-thread.ts";
import { joined } from "../numbers.ts";
import type { TaskDeps } from "../task-engine.ts";

/** Memory of the text read so far. */
export interface Memory {
  readonly length: number;
  readonly tensors: Readonly<Record<string, TensorRef | TensorValue>>;
}

export interface VisionGraphs {
  readonly nothing: Memory;
  readonly width: number;
  /** Features of all tiles, one after the other. */
  features(tiles: Tiles, signal: AbortSignal): Promise<Float32Array>;
  embed(tokens: readonly number[]): Promise<Float32Array>;
  /** Continues. Returns scores of the next token on request. */
  read(
    embeds: Float32Array,
    memory: Memory,
    wantsScores: boolean,
  ): Promise<{ readonly memory: Memory; readonly scores: Float32Array }>;
  forget(memory: Memory): void;
}

/** Exports name their quantised forms so; the first that is there is taken. */
const forms = ["", "_quantized", "_int8", "_q4", "_uint8", "_bnb4"];
const float = ["float32"];
const whole = ["int64"];
/** On the processor each tile by itself: attention within a tile fills the cores, and several would only take memory. */
const tilesAtOnce = { cpu: 1, gpu: 8 };

/** Throws LoadFailure. */
export async function openVisionGraphs({ graphs }: TaskDeps, folder: ModelFolder): Promise<VisionGraphs> {
  const open = async (part: string, needs: Parameters<typeof checkIo>[3]) => {
    const graph = graphNamed(folder, part);
    const session = await graphs.open(folder, graph);
    checkIo(graph, "image-text-to-text", session, needs);
    return session;
  };
  const encoder = await open("vision_encoder", {
    known: [
      { name: "pixel_values", types: float, rank: 5 },
      { name: "pixel_attention_mask", types: ["bool"], rank: 4 },
    ],
    required: ["pixel_values"],
    outputs: [{ name: "image_features", types: float, rank: 3 }],
  });
  const embedder = await open("embed_tokens", {
    known: [{ name: "input_ids", types: whole, rank: 2 }],
    required: ["input_ids"],
    outputs: [{ name: "inputs_embeds", types: float, rank: 3 }],
  });
  const graph = graphNamed(folder, "decoder_model_merged");
  const decoder = await graphs.open(folder, graph);
  const past = decoder.inputs.filter(({ name }) => name.startsWith("past_key_values."));
  const known: IoNeed[] = [
    { name: "inputs_embeds", types: float, rank: 3 },
    { name: "attention_mask", types: whole, rank: 2 },
    { name: "position_ids", types: whole, rank: 2 },
    ...past.map(({ name }) => ({ name, types: float, rank: 4 })),
  ];
  const logits = [{ name: "logits", types: float, rank: 3 }];
  checkIo(graph, "image-text-to-text", decoder, { known, required: ["inputs_embeds"], outputs: logits });
  const nothing = { length: 0, tensors: Object.fromEntries(past.map(({ name, shape }) => [name, emptyOf(shape)])) };
  const embedding = embedder.outputs.find(({ name }) => name === "inputs_embeds")?.shape.at(-1);
  const width = typeof embedding === "number" ? embedding : 0;
  return {
    nothing,
    width,

    async features({ pixels }: Tiles, signal: AbortSignal): Promise<Float32Array> {
      const [, tiles = 0, channels = 3, rows = 0, columns = 0] = pixels.dims;
      const size = channels * rows * columns;
      const max = encoder.provider === "cpu" ? tilesAtOnce.cpu : tilesAtOnce.gpu;
      const parts: Float32Array[] = [];
      for (let at = 0; at < tiles; at += max) {
        signal.throwIfAborted();
        const count = Math.min(max, tiles - at);
        const data = (pixels.data as Float32Array).slice(at * size, (at + count) * size);
        const feeds: Record<string, TensorValue> = {
          pixel_values: { type: "float32", data, dims: [1, count, channels, rows, columns] },
          pixel_attention_mask: {
            type: "bool",
            data: new Uint8Array(count * rows * columns).fill(1),
            dims: [1, count, rows, columns],
          },
        };
        const wanted = Object.fromEntries(encoder.inputs.map(({ name }) => [name, feeds[name] as TensorValue]));
        const { image_features: found } = await encoder.run(wanted, ["image_features"]);
        parts.push(found?.data as Float32Array);
      }
      return joined(parts);
    },

    async embed(tokens: readonly number[]): Promise<Float32Array> {
      const ids: TensorValue = { type: "int64", data: BigInt64Array.from(tokens, BigInt), dims: [1, tokens.length] };
      const { inputs_embeds: found } = await embedder.run({ input_ids: ids }, ["inputs_embeds"]);
      return found?.data as Float32Array;
    },

    async read(embeds: Float32Array, { length, tensors }: Memory, wantsScores: boolean) {
      const count = embeds.length / width;
      const total = length + count;
      const all: Record<string, TensorValue | TensorRef> = {
        ...tensors,
        inputs_embeds: { type: "float32", data: embeds, dims: [1, count, width] },
        attention_mask: { type: "int64", data: new BigInt64Array(total).fill(1n), dims: [1, total] },
        position_ids: {
          type: "int64",
          data: BigInt64Array.from({ length: count }, (_, i) => BigInt(length + i)),
          dims: [1, count],
        },
      };
      const feeds = Object.fromEntries(decoder.inputs.map(({ name }) => [name, all[name] as TensorValue | TensorRef]));
      // Scores of every token of a prompt would be hundreds of megabytes.
      const { given, kept } = await decoder.runKept(feeds, (name) => name !== "logits" || !wantsScores);
      const { logits, ...present } = kept;
      if (logits) decoder.release([logits]);
      const named = Object.entries(present).map(([name, ref]) => [name.replace(/^present/, "past_key_values"), ref]);
      const scores = (given["logits"]?.data ?? new Float32Array()) as Float32Array;
      return {
        memory: { length: total, tensors: Object.fromEntries(named) as Memory["tensors"] },
        scores: scores.subarray(scores.length - scores.length / count),
      };
    },

    forget({ tensors }) {
      decoder.release(Object.values(tensors).filter((tensor): tensor is TensorRef => "ref" in tensor));
    },
  };
}

function graphNamed({ graphs, root }: ModelFolder, part: string): string {
  for (const form of forms)
    for (const folder of ["onnx/", ""])
      if (graphs.includes(`${folder}${part}${form}.onnx`)) return `${folder}${part}${form}.onnx`;
  throw new LoadFailure(
    "no ONNX model",
    `${root} holds no ${part}.onnx; export the model as vision_encoder, embed_tokens and decoder_model_merged`,
  );
}

/** One text, no tokens yet. */
function emptyOf(shape: readonly (number | string)[]): TensorValue {
  const dims = shape.map((length, axis) => (axis === 0 ? 1 : axis === 2 ? 0 : Number(length)));
  return { type: "float32", data: new Float32Array(), dims };
}
