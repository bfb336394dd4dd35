// The graphs of a latent diffusion pipeline as its folder keeps them: texts to vectors, a guess of the noise, pixels to
// latents and back.
import { LoadFailure } from "../../llama/load-failure.ts";
import { checkIo, type IoNeed } from "../../onnx/check-io.ts";
import type { Json, ModelFolder } from "../../onnx/model-folder.ts";
import type { Graphs } from "../../onnx/open-graph.ts";
import type { Session, TensorValue } from "../../onnx/session.ts";
import { joined } from "../numbers.ts";
import { withAdapters } from "./adapter/adapted-folders.ts";
import type { ImageAdapter } from "./adapter/adapter-file.ts";
import type { AdaptedPart } from "./adapter/read-adapter.ts";
import { floatsOf, tensorOf } from "./float-tensor.ts";
import type { Latents } from "./schedule/schedule.ts";
import type { Sizes } from "./sizes.ts";

/** Vectors of one text: `length` of them, each `width` long. */
export interface TextVectors {
  readonly values: Float32Array;
  readonly dims: readonly number[];
}

/** Latents of one picture are `channels` planes of this size. */
export interface LatentSize {
  readonly width: number;
  readonly height: number;
}

export interface DiffusionGraphs {
  /** Planes of a picture's latents. */
  readonly channels: number;
  /** Pixels along a side of one latent. */
  readonly factor: number;
  readonly sizes: Sizes;
  readonly takesPictures: boolean;
  vectors(ids: readonly (readonly number[])[]): Promise<TextVectors[]>;
  /** One guess per sample, each with its own text. */
  guess(
    samples: readonly Latents[],
    size: LatentSize,
    timestep: number,
    texts: readonly TextVectors[],
  ): Promise<Latents[]>;
  /** Pixels by planes, from -1 to 1. */
  pixels(latents: Latents, size: LatentSize): Promise<Float32Array>;
  latents(pixels: Float32Array, size: LatentSize): Promise<Latents>;
  /** One short run of what every request needs: the first one of a graph is slow. */
  warmUp(tokens: number): Promise<void>;
}

const floats = ["float32", "float16"];
const integers = ["int64", "int32"];
const steps = ["float32", "float16", "float64", "int64", "int32"];
const plane = (name: string): IoNeed => ({ name, types: floats, rank: 4 });
const usualScaling = 0.18215;

/** Graphs of the parts that adapters change. */
export const adaptedGraphs = { unet: "unet/model.onnx", text_encoder: "text_encoder/model.onnx" } as const;
const decoderGraph = "vae_decoder/model.onnx";
const encoderGraph = "vae_encoder/model.onnx";

/** A pipeline that can be opened again with other adapters. */
export interface DiffusionPipeline extends DiffusionGraphs {
  /** With one adapter more than it was opened with. Throws AdapterRefusal, LoadFailure. */
  adapted(adapter: ImageAdapter): Promise<AdaptedGraphs>;
}

export interface AdaptedGraphs extends DiffusionGraphs {
  /** Gives back what it does not share with the pipeline it was made of. */
  close(): void;
}

interface Sessions {
  readonly text: Session;
  readonly unet: Session;
  readonly decoder: Session;
  readonly encoder: Session | undefined;
}

interface Configs {
  readonly unet: Json;
  readonly decoder: Json;
  /** The encoder's output that is read. */
  readonly encoded: string;
}

/** `adapters`: folded into all that is painted. `scratchDir`: see withAdapters. Throws AdapterRefusal, LoadFailure. */
export async function openDiffusionGraphs(
  graphs: Graphs,
  folder: ModelFolder,
  adapters: readonly ImageAdapter[],
  scratchDir?: string,
): Promise<DiffusionPipeline> {
  for (const name of [adaptedGraphs.text_encoder, adaptedGraphs.unet, decoderGraph])
    if (!folder.graphs.includes(name)) throw incomplete(folder, name);
  const openParts = (all: readonly ImageAdapter[], known: Partial<Record<AdaptedPart, Session>>) =>
    withAdapters(folder, adaptedGraphs, all, scratchDir, async (folderOf) => {
      const opened = async (part: AdaptedPart) => {
        const own = folderOf(part);
        const isOwn = own !== folder;
        const same = isOwn ? undefined : known[part];
        // A copy that goes once it is loaded is found in no cache again.
        return same ?? (await graphs.open(own, adaptedGraphs[part], { isCached: !isOwn }));
      };
      return { text: await opened("text_encoder"), unet: await opened("unet") };
    });
  const { text, unet } = await openParts(adapters, {});
  const decoder = await graphs.open(folder, decoderGraph);
  const encoder = folder.graphs.includes(encoderGraph) ? await graphs.open(folder, encoderGraph) : undefined;
  const configs: Configs = {
    encoded: check(text, unet, decoder, encoder),
    unet: await folder.json("unet/config.json"),
    decoder: await folder.json("vae_decoder/config.json"),
  };
  const channels = numberIn(configs.unet, "in_channels", 4);
  if (numberIn(configs.unet, "out_channels", 4) !== channels)
    throw new LoadFailure(
      "unsupported pipeline",
      `${folder.root}: its UNet takes ${channels} channels, among them a mask; serve the pipeline that paints whole pictures, which also takes masks here`,
    );
  // Only what no adapter changed is shared: the deltas of all are added to the weights as the folder has them.
  const known = adapters.length === 0 ? { text_encoder: text, unet } : {};
  return {
    ...graphsOf({ text, unet, decoder, encoder }, configs),
    async adapted(adapter) {
      const own = await openParts([...adapters, adapter], known);
      return {
        ...graphsOf({ ...own, decoder, encoder }, configs),
        close() {
          if (own.text !== text) own.text.close();
          if (own.unet !== unet) own.unet.close();
        },
      };
    },
  };
}

function graphsOf({ text, unet, decoder, encoder }: Sessions, configs: Configs): DiffusionGraphs {
  const channels = numberIn(configs.unet, "in_channels", 4);
  const scaling = numberIn(configs.decoder, "scaling_factor", usualScaling);
  const factor = 2 ** (listIn(configs.decoder, "block_out_channels", 4) - 1);
  const made: DiffusionGraphs = {
    channels,
    factor,
    sizes: sizesOf(unet, configs.unet, factor),
    takesPictures: encoder !== undefined,
    async vectors(ids) {
      const length = ids[0]?.length ?? 0;
      const type = typeOf(text, "input_ids");
      const dims = [ids.length, length];
      const flat = ids.flat();
      const data = type === "int64" ? BigInt64Array.from(flat, BigInt) : Int32Array.from(flat);
      const found = await text.run({ input_ids: { type, data, dims } }, ["last_hidden_state"]);
      return rows(found["last_hidden_state"] as TensorValue);
    },
    async guess(samples, size, timestep, texts) {
      const dims = [samples.length, channels, size.height, size.width];
      const textDims = texts[0]?.dims ?? [];
      const stepDims = (unet.inputs.find(({ name }) => name === "timestep")?.shape.length ?? 0) === 0 ? [] : [1];
      const vectors = joined(texts.map(({ values }) => values));
      const feeds = {
        sample: inputOf(unet, "sample", joined(samples), dims),
        timestep: inputOf(unet, "timestep", Float32Array.of(timestep), stepDims),
        encoder_hidden_states: inputOf(unet, "encoder_hidden_states", vectors, [texts.length, ...textDims]),
      };
      const found = await unet.run(feeds, ["out_sample"]);
      return rows(found["out_sample"] as TensorValue).map(({ values }) => values);
    },
    async pixels(latents, size) {
      const dims = [1, channels, size.height, size.width];
      const scaled = latents.map((value) => value / scaling);
      const found = await decoder.run({ latent_sample: inputOf(decoder, "latent_sample", scaled, dims) }, ["sample"]);
      return floatsOf(found["sample"] as TensorValue);
    },
    async latents(pixels, size) {
      if (!encoder) throw new TypeError("the pipeline takes no pictures");
      const dims = [1, 3, size.height * factor, size.width * factor];
      const found = await encoder.run({ sample: inputOf(encoder, "sample", pixels, dims) }, [configs.encoded]);
      // The mean precedes the variance; a random draw would only blur the picture that was sent.
      const mean = floatsOf(found[configs.encoded] as TensorValue).slice(0, channels * size.width * size.height);
      return mean.map((value) => value * scaling);
    },
    async warmUp(tokens) {
      const size = { width: made.sizes.width / factor, height: made.sizes.height / factor };
      const vectors = await made.vectors([Array<number>(tokens).fill(0)]);
      const [guess] = await made.guess([new Float32Array(channels * size.width * size.height)], size, 1, vectors);
      if (guess) await made.pixels(guess, size);
    },
  };
  return made;
}

/** Trained on one size; a graph exported for a fixed size makes only that size. */
function sizesOf(unet: Session, config: Json, factor: number): Sizes {
  const [, , height, width] = unet.inputs.find(({ name }) => name === "sample")?.shape ?? [];
  if (typeof height === "number" && typeof width === "number" && height > 0 && width > 0)
    return { width: width * factor, height: height * factor, step: 0 };
  const side = numberIn(config, "sample_size", 64) * factor;
  // Every level of the UNet halves the sides.
  return { width: side, height: side, step: factor * 2 ** (listIn(config, "block_out_channels", 4) - 1) };
}

/** Returns the output of the encoder that is read. */
function check(text: Session, unet: Session, decoder: Session, encoder: Session | undefined) {
  checkIo("text_encoder", "text-to-image", text, {
    known: [{ name: "input_ids", types: integers, rank: 2 }],
    required: ["input_ids"],
    outputs: [{ name: "last_hidden_state", types: floats, rank: 3 }],
  });
  const timestep = unet.inputs.find(({ name }) => name === "timestep");
  checkIo("unet", "text-to-image", unet, {
    known: [
      plane("sample"),
      // One for all, as a scalar or as a list.
      { name: "timestep", types: steps, rank: timestep?.shape.length === 0 ? 0 : 1 },
      { name: "encoder_hidden_states", types: floats, rank: 3 },
    ],
    required: ["sample", "timestep", "encoder_hidden_states"],
    outputs: [plane("out_sample")],
  });
  checkIo("vae_decoder", "text-to-image", decoder, {
    known: [plane("latent_sample")],
    required: ["latent_sample"],
    outputs: [plane("sample")],
  });
  if (!encoder) return "";
  const outputs = [plane("latent_parameters"), plane("latent_sample")];
  const needs = { known: [plane("sample")], required: ["sample"], outputs };
  return checkIo("vae_encoder", "image-to-image", encoder, needs).name;
}

const typeOf = ({ inputs }: Session, name: string) => inputs.find((input) => input.name === name)?.type ?? "float32";

const inputOf = (session: Session, name: string, values: Float32Array, dims: readonly number[]) =>
  tensorOf(typeOf(session, name), values, dims);

/** Each item of the first dimension by itself. */
function rows(tensor: TensorValue): TextVectors[] {
  const [count = 1, ...dims] = tensor.dims;
  const values = floatsOf(tensor);
  const size = values.length / count;
  return Array.from({ length: count }, (_, row) => ({ values: values.slice(row * size, (row + 1) * size), dims }));
}

const numberIn = (config: Json, name: string, fallback: number) =>
  typeof config[name] === "number" ? (config[name] as number) : fallback;
const listIn = (config: Json, name: string, fallback: number) =>
  Array.isArray(config[name]) ? (config[name] as unknown[]).length : fallback;

function incomplete(folder: ModelFolder, name: string): LoadFailure {
  return new LoadFailure(
    "incomplete pipeline",
    `${folder.root} holds no ${name}; export the whole Stable Diffusion pipeline to ONNX (text_encoder, unet, vae_decoder, vae_encoder, tokenizer, scheduler)`,
  );
}
