// A model of SmolVLM's form, small and seeded: tokenizer, chat template, picture encoder, embeddings, a decoder that remembers.
// What it says is nonsense; test/fixtures/onnx/vision-reference.py says with other programs what nonsense it must be.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";
import { f32, type Graph, type Io, i64, type Node, node, onnxFile, seededWeights, type Weight } from "./onnx-file.ts";

const [width, heads, layers, tile, patch] = [16, 2, 2, 32, 16];
const headSize = width / heads;
const perTile = (tile / patch) ** 2;
const patchSize = 3 * patch * patch;
const longest = 512;

/** Printable ASCII, space and newline as byte-level tokenizers write them. */
const letters = [..."\u0120\u010a"].concat(Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)));
const places = [1, 2].flatMap((row) => [1, 2].map((column) => `<row_${row}_col_${column}>`));
const special = [
  "<|im_start|>",
  "<end_of_utterance>",
  "<image>",
  "<fake_token_around_image>",
  "<global-img>",
  ...places,
];
const vocabulary = letters.length + special.length;
const idOf = (token: string) => letters.length + special.indexOf(token);

export const chatTemplate =
  "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}{% if message['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% elif part['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

const number = (name: string, value: number): Weight => ({ name, dims: [], data: Float32Array.of(value) });
const floats = (name: string, shape: readonly (number | string)[]): Io => ({ name, type: "float32", shape });
const whole = (name: string, shape: readonly (number | string)[]): Io => ({ name, type: "int64", shape });

function encoderGraph(): Graph {
  return {
    inputs: [
      floats("pixel_values", ["batch", "tiles", 3, tile, tile]),
      { name: "pixel_attention_mask", type: "bool", shape: ["batch", "tiles", tile, tile] },
    ],
    nodes: [
      node("Reshape", ["pixel_values", "grid"], "cells"),
      node("Transpose", ["cells"], "ordered", { perm: [0, 2, 4, 1, 3, 5] }),
      node("Reshape", ["ordered", "rows"], "patches"),
      node("MatMul", ["patches", "patch_w"], "raw"),
      node("Tanh", ["raw"], "bent"),
      node("Cast", ["pixel_attention_mask"], "seen", { to: 1 }),
      node("ReduceMin", ["seen"], "all_seen", { keepdims: 0 }),
      node("Mul", ["bent", "all_seen"], "image_features"),
    ],
    weights: [
      i64("grid", [-1, 3, tile / patch, patch, tile / patch, patch]),
      i64("rows", [-1, perTile, patchSize]),
      f32("patch_w", [patchSize, width], 101, 0.35),
    ],
    outputs: [floats("image_features", ["all_tiles", perTile, width])],
  };
}

const embedGraph: Graph = {
  inputs: [whole("input_ids", ["batch", "tokens"])],
  nodes: [node("Gather", ["words", "input_ids"], "inputs_embeds", { axis: 0 })],
  weights: [f32("words", [vocabulary, width], 111, 1)],
  outputs: [floats("inputs_embeds", ["batch", "tokens", width])],
};

function layerNodes(layer: number, input: string, output: string): Node[] {
  const at = (name: string) => `l${layer}_${name}`;
  const split = (name: string) => [
    node("MatMul", [input, at(`${name}_w`)], at(`${name}_flat`)),
    node("Reshape", [at(`${name}_flat`), "by_head"], at(`${name}_cut`)),
    node("Transpose", [at(`${name}_cut`)], at(name), { perm: [0, 2, 1, 3] }),
  ];
  return [
    ...split("q"),
    ...split("k"),
    ...split("v"),
    node("Concat", [`past_key_values.${layer}.key`, at("k")], `present.${layer}.key`, { axis: 2 }),
    node("Concat", [`past_key_values.${layer}.value`, at("v")], `present.${layer}.value`, { axis: 2 }),
    node("Transpose", [`present.${layer}.key`], at("turned"), { perm: [0, 1, 3, 2] }),
    node("MatMul", [at("q"), at("turned")], at("raw")),
    node("Mul", [at("raw"), "scale"], at("scaled")),
    node("Where", ["before", at("scaled"), "never"], at("masked")),
    node("Softmax", [at("masked")], at("share"), { axis: -1 }),
    node("MatMul", [at("share"), `present.${layer}.value`], at("mixed")),
    node("Transpose", [at("mixed")], at("back"), { perm: [0, 2, 1, 3] }),
    node("Reshape", [at("back"), "joined"], at("heads")),
    node("MatMul", [at("heads"), at("o_w")], at("own")),
    node("Add", [input, at("own")], at("after")),
    node("MatMul", [at("after"), at("up_w")], at("up")),
    node("Tanh", [at("up")], at("bent")),
    node("MatMul", [at("bent"), at("down_w")], at("down")),
    node("Add", [at("after"), at("down")], output),
  ];
}

function decoderGraph(): Graph {
  const all = Array.from({ length: layers }, (_, layer) => layer);
  // Letters may be said, and the end; nothing else of the special tokens.
  const bias = new Float32Array(vocabulary).fill(-1000, letters.length);
  bias[idOf("<end_of_utterance>")] = -2;
  return {
    inputs: [
      floats("inputs_embeds", ["batch", "tokens", width]),
      whole("attention_mask", ["batch", "total"]),
      whole("position_ids", ["batch", "tokens"]),
      ...all.flatMap((layer) =>
        ["key", "value"].map((what) => floats(`past_key_values.${layer}.${what}`, ["batch", heads, "past", headSize])),
      ),
    ],
    nodes: [
      node("Shape", ["attention_mask"], "mask_shape"),
      node("Gather", ["mask_shape", "one"], "total", { axis: 0 }),
      node("Range", ["zero", "total", "one"], "keys"),
      node("Unsqueeze", ["position_ids", "around"], "asking"),
      node("LessOrEqual", ["keys", "asking"], "before"),
      node("Gather", ["positions", "position_ids"], "place", { axis: 0 }),
      node("Add", ["inputs_embeds", "place"], "x0"),
      ...all.flatMap((layer) => layerNodes(layer, `x${layer}`, `x${layer + 1}`)),
      node("MatMul", [`x${layers}`, "out_w"], "unbiased"),
      node("Add", ["unbiased", "out_b"], "logits"),
    ],
    weights: [
      i64("zero", [0], []),
      i64("one", [1], []),
      i64("around", [1, 3]),
      i64("by_head", [0, 0, heads, headSize]),
      i64("joined", [0, 0, width]),
      number("scale", 1 / Math.sqrt(headSize)),
      number("never", -1e9),
      f32("positions", [longest, width], 121, 0.5),
      ...all.flatMap((layer) =>
        ["q", "k", "v", "o", "up", "down"].map((name, i) =>
          f32(`l${layer}_${name}_w`, [width, width], 131 + 10 * layer + i, 0.6),
        ),
      ),
      f32("out_w", [width, vocabulary], 161, 1.5),
      { name: "out_b", dims: [vocabulary], data: bias },
    ],
    outputs: [
      floats("logits", ["batch", "tokens", vocabulary]),
      ...all.flatMap((layer) =>
        ["key", "value"].map((what) => floats(`present.${layer}.${what}`, ["batch", heads, "total", headSize])),
      ),
    ],
  };
}

/** As large as the processor makes every picture, so that nothing is resized but the impression of the whole. */
const pictureShapes = [
  { width: 64, height: 32, seed: 7 },
  { width: 64, height: 64, seed: 9 },
];

/** What is halved stands in pairs of one colour: however it is done, the half is the same. */
async function writePictures(folder: string): Promise<void> {
  for (const [i, { width: w, height: h, seed }] of pictureShapes.entries()) {
    const [across, down] = [w / tile, h / tile];
    const colours = seededWeights(seed, tile * tile * 3);
    const bytes = Buffer.from(
      Array.from({ length: w * h * 3 }, (_, at) => {
        const [x, y, channel] = [Math.floor(at / 3) % w, Math.floor(at / 3 / w), at % 3];
        return Math.round(
          127.5 * (1 + (colours[(Math.floor(y / down) * tile + Math.floor(x / across)) * 3 + channel] as number)),
        );
      }),
    );
    const png = sharp(bytes, { raw: { width: w, height: h, channels: 3 } }).png();
    writeFileSync(join(folder, `picture-${i}.png`), await png.toBuffer());
  }
}

/** Writes the model's folder, and beside its files the pictures that the reference was asked about. */
export async function writeVisionModel(folder: string): Promise<void> {
  mkdirSync(join(folder, "onnx"), { recursive: true });
  const json = (file: string, value: object) => writeFileSync(join(folder, file), JSON.stringify(value));
  const vocab = Object.fromEntries(letters.map((letter, id) => [letter, id]));
  const level = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  json("tokenizer.json", {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: special.map((content, i) => ({
      id: letters.length + i,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: level,
    post_processor: level,
    decoder: level,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab,
      merges: [],
    },
  });
  json("tokenizer_config.json", {
    tokenizer_class: "GPT2Tokenizer",
    eos_token: "<end_of_utterance>",
    bos_token: "<|im_start|>",
    model_max_length: longest,
    chat_template: chatTemplate,
  });
  json("config.json", {
    architectures: ["Idefics3ForConditionalGeneration"],
    model_type: "idefics3",
    scale_factor: 1,
    vision_config: { image_size: tile, patch_size: patch },
    text_config: { max_position_embeddings: longest },
  });
  json("preprocessor_config.json", {
    image_processor_type: "Idefics3ImageProcessor",
    do_convert_rgb: true,
    do_image_splitting: true,
    do_resize: true,
    size: { longest_edge: 64 },
    max_image_size: { longest_edge: tile },
    resample: 1,
    do_rescale: true,
    rescale_factor: 1 / 255,
    do_normalize: true,
    image_mean: [0.5, 0.5, 0.5],
    image_std: [0.5, 0.5, 0.5],
    do_pad: true,
  });
  json("processor_config.json", { image_seq_len: perTile, processor_class: "Idefics3Processor" });
  writeFileSync(join(folder, "onnx/vision_encoder.onnx"), onnxFile(encoderGraph()));
  writeFileSync(join(folder, "onnx/embed_tokens.onnx"), onnxFile(embedGraph));
  writeFileSync(join(folder, "onnx/decoder_model_merged.onnx"), onnxFile(decoderGraph()));
  await writePictures(folder);
}
