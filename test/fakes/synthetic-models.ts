// Small models for tasks whose real weights are not at hand, the same bytes everywhere: the embedding model with a seeded
// head, and graphs of the shapes of CLIP and DETR. What they answer is nonsense; that it is the right nonsense is shown by
// test/fixtures/onnx/reference.py, which computes it with other programs.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { f32, type Graph, type Io, i64, node, onnxAddition, onnxFile } from "./onnx-file.ts";

const width = 384;
const vocabulary = 30_522;
const pixels = 64 * 64 * 3;

interface Head {
  readonly architecture: string;
  readonly labels?: readonly string[];
  readonly graph: Graph;
}

const out = (name: string, shape: readonly (number | string)[]): Io => ({ name, type: "float32", shape });

/** Scores of a whole text, by its first token. */
function sequenceHead(labels: readonly string[], seed: number): Head {
  return {
    architecture: "BertForSequenceClassification",
    labels,
    graph: {
      nodes: [
        node("Gather", ["last_hidden_state", "head_first"], "head_cls", { axis: 1 }),
        node("MatMul", ["head_cls", "head_w"], "head_x"),
        node("Add", ["head_x", "head_b"], "logits"),
      ],
      weights: [
        i64("head_first", [0], []),
        f32("head_w", [width, labels.length], seed, 0.25),
        f32("head_b", [labels.length], seed + 1, 0.5),
      ],
      outputs: [out("logits", ["batch_size", labels.length])],
    },
  };
}

const tokenLabels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"];

const heads: Readonly<Record<string, Head>> = {
  reranker: sequenceHead(["LABEL_0"], 11),
  "text-classification": sequenceHead(["negative", "neutral", "positive"], 21),
  "zero-shot-classification": sequenceHead(["contradiction", "neutral", "entailment"], 31),
  "token-classification": {
    architecture: "BertForTokenClassification",
    labels: tokenLabels,
    graph: {
      nodes: [node("MatMul", ["last_hidden_state", "head_w"], "logits")],
      weights: [f32("head_w", [width, tokenLabels.length], 41, 0.4)],
      outputs: [out("logits", ["batch_size", "sequence_length", tokenLabels.length])],
    },
  },
  "fill-mask": {
    architecture: "BertForMaskedLM",
    graph: {
      nodes: [
        node("MatMul", ["last_hidden_state", "head_w"], "head_x"),
        node("MatMul", ["head_x", "head_v"], "logits"),
      ],
      weights: [f32("head_w", [width, 8], 51, 0.3), f32("head_v", [8, vocabulary], 52, 1.5)],
      outputs: [out("logits", ["batch_size", "sequence_length", vocabulary])],
    },
  },
  "question-answering": {
    architecture: "BertForQuestionAnswering",
    graph: {
      nodes: ["start", "end"].flatMap((end) => [
        node("MatMul", ["last_hidden_state", `head_${end}`], `head_${end}_x`),
        node("Squeeze", [`head_${end}_x`, "head_last"], `${end}_logits`),
      ]),
      weights: [f32("head_start", [width, 1], 61, 0.5), f32("head_end", [width, 1], 62, 0.5), i64("head_last", [2])],
      outputs: [
        out("start_logits", ["batch_size", "sequence_length"]),
        out("end_logits", ["batch_size", "sequence_length"]),
      ],
    },
  },
};

const pixelInput: Io = { name: "pixel_values", type: "float32", shape: ["images", 3, 64, 64] };
const imageSettings = {
  image_processor_type: "ViTImageProcessor",
  feature_extractor_type: "ViTFeatureExtractor",
  do_resize: true,
  size: { height: 64, width: 64 },
  resample: 2,
  do_rescale: true,
  rescale_factor: 1 / 255,
  do_normalize: true,
  image_mean: [0.5, 0.5, 0.5],
  image_std: [0.5, 0.5, 0.5],
};

function clipGraph(): Graph {
  const tokens: Io[] = ["input_ids", "attention_mask"].map((name) => ({
    name,
    type: "int64",
    shape: ["texts", "tokens"],
  }));
  return {
    inputs: [...tokens, pixelInput],
    nodes: [
      node("Flatten", ["pixel_values"], "flat", { axis: 1 }),
      node("MatMul", ["flat", "image_w"], "image"),
      node("LpNormalization", ["image"], "image_embeds", { axis: -1, p: 2 }),
      node("Gather", ["token_w", "input_ids"], "words", { axis: 0 }),
      node("Cast", ["attention_mask"], "mask", { to: 1 }),
      node("Unsqueeze", ["mask", "last"], "mask3"),
      node("Mul", ["words", "mask3"], "own"),
      node("ReduceSum", ["own", "middle"], "text", { keepdims: 0 }),
      node("LpNormalization", ["text"], "text_embeds", { axis: -1, p: 2 }),
      node("Transpose", ["text_embeds"], "turned", { perm: [1, 0] }),
      node("MatMul", ["image_embeds", "turned"], "cosine"),
      node("Mul", ["cosine", "scale"], "logits_per_image"),
    ],
    weights: [
      f32("image_w", [pixels, 16], 71, 0.1),
      f32("token_w", [vocabulary, 16], 72, 1),
      i64("last", [2]),
      i64("middle", [1]),
      { name: "scale", dims: [], data: Float32Array.of(6) },
    ],
    outputs: [out("logits_per_image", ["images", "texts"])],
  };
}

const objects = ["cat", "dog", "boat", "tree"];
const queries = 6;

function detrGraph(): Graph {
  const classes = objects.length + 1;
  return {
    inputs: [pixelInput],
    nodes: [
      node("Flatten", ["pixel_values"], "flat", { axis: 1 }),
      node("MatMul", ["flat", "label_w"], "label_x"),
      node("Reshape", ["label_x", "label_shape"], "logits"),
      node("MatMul", ["flat", "box_w"], "box_x"),
      node("Reshape", ["box_x", "box_shape"], "box_y"),
      node("Sigmoid", ["box_y"], "pred_boxes"),
    ],
    weights: [
      f32("label_w", [pixels, queries * classes], 81, 0.05),
      f32("box_w", [pixels, queries * 4], 82, 0.02),
      i64("label_shape", [-1, queries, classes]),
      i64("box_shape", [-1, queries, 4]),
    ],
    outputs: [out("logits", ["images", queries, classes]), out("pred_boxes", ["images", queries, 4])],
  };
}

export type SyntheticModel = keyof typeof heads | "zero-shot-image-classification" | "object-detection";
export const syntheticModels: readonly string[] = [
  ...Object.keys(heads),
  "zero-shot-image-classification",
  "object-detection",
];

/** Writes the model's folder. `base`: the folder of all-MiniLM-L6-v2. */
export function writeSyntheticModel(name: string, base: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  const json = (file: string, value: object) => writeFileSync(join(folder, file), JSON.stringify(value));
  const head = heads[name];
  for (const file of ["tokenizer.json", "tokenizer_config.json"]) copyFileSync(join(base, file), join(folder, file));
  if (head) {
    const graph = readFileSync(join(base, "onnx/model_quantized.onnx"));
    writeFileSync(join(folder, "model.onnx"), Buffer.concat([graph, onnxAddition(head.graph)]));
    const config = JSON.parse(readFileSync(join(base, "config.json"), "utf8"));
    const id2label = head.labels && Object.fromEntries(head.labels.entries());
    json("config.json", { ...config, architectures: [head.architecture], ...(id2label ? { id2label } : {}) });
    return;
  }
  json("preprocessor_config.json", imageSettings);
  if (name === "object-detection") {
    writeFileSync(join(folder, "model.onnx"), onnxFile(detrGraph()));
    const id2label = Object.fromEntries(objects.entries());
    json("config.json", { architectures: ["DetrForObjectDetection"], model_type: "detr", id2label });
  } else {
    writeFileSync(join(folder, "model.onnx"), onnxFile(clipGraph()));
    json("config.json", { architectures: ["CLIPModel"], model_type: "clip", max_position_embeddings: 77 });
  }
}
