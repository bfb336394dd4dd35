// A synthetic cross-encoder in the form of llama.cpp's BERT: two layers with seeded weights and a head that gives one score.
// What it says of a pair means nothing; that it says what its numbers say is what can be tested.
import { type GgufTensor, ggufFile } from "./gguf-file.ts";
import { seededWeights } from "./onnx-file.ts";

const words =
  "how do i reset my password open the settings and choose a new one stock market fell on monday cats sleep";
const control = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
/** A word's beginning is marked, as llama.cpp's converter writes it. */
const vocabulary = [
  ...control,
  ...[...new Set(words.split(" "))].map((word) => `▁${word}`),
  ...[..."abcdefghijklmnopqrstuvwxyz"].flatMap((letter) => [`▁${letter}`, letter]),
  ...[..."?.,!"].map((mark) => `▁${mark}`),
].filter((token, i, all) => all.indexOf(token) === i);

const width = 32;
const inner = 64;
const layers = 2;
const longest = 64;

function tensorOf(name: string, dims: readonly number[], spread: number, around = 0): GgufTensor {
  const count = dims.reduce((product, dim) => product * dim, 1);
  return { name, dims, data: seededWeights(seedOf(name), count, spread).map((value) => value + around) };
}

/** Another one for each tensor. */
const seedOf = (name: string) => [...name].reduce((seed, sign) => (Math.imul(seed, 31) + sign.charCodeAt(0)) >>> 0, 7);

const norm = (name: string): GgufTensor[] => [
  tensorOf(`${name}.weight`, [width], 0.1, 1),
  tensorOf(`${name}.bias`, [width], 0.1),
];
const linear = (name: string, from: number, to: number, spread = 0.3): GgufTensor[] => [
  tensorOf(`${name}.weight`, [from, to], spread),
  tensorOf(`${name}.bias`, [to], 0.1),
];

export function ggufReranker(): Buffer {
  const blocks = Array.from({ length: layers }, (_, i) => `blk.${i}`).flatMap((block) => [
    ...["attn_q", "attn_k", "attn_v", "attn_output"].flatMap((name) => linear(`${block}.${name}`, width, width)),
    ...norm(`${block}.attn_output_norm`),
    ...linear(`${block}.ffn_up`, width, inner),
    ...linear(`${block}.ffn_down`, inner, width),
    ...norm(`${block}.layer_output_norm`),
  ]);
  return ggufFile(
    {
      "general.architecture": { string: "bert" },
      "general.name": { string: "synthetic reranker" },
      "general.file_type": { uint32: 0 },
      "bert.block_count": { uint32: layers },
      "bert.context_length": { uint32: longest },
      "bert.embedding_length": { uint32: width },
      "bert.feed_forward_length": { uint32: inner },
      "bert.attention.head_count": { uint32: 4 },
      "bert.attention.layer_norm_epsilon": { float32: 1e-12 },
      "bert.attention.causal": { bool: false },
      "bert.pooling_type": { uint32: 4 },
      "tokenizer.ggml.model": { string: "bert" },
      "tokenizer.ggml.tokens": { strings: vocabulary },
      "tokenizer.ggml.token_type": { int32s: vocabulary.map((_, i) => (i < control.length ? 3 : 1)) },
      "tokenizer.ggml.token_type_count": { uint32: 2 },
      "tokenizer.ggml.padding_token_id": { uint32: 0 },
      "tokenizer.ggml.unknown_token_id": { uint32: 1 },
      "tokenizer.ggml.cls_token_id": { uint32: 2 },
      "tokenizer.ggml.bos_token_id": { uint32: 2 },
      "tokenizer.ggml.seperator_token_id": { uint32: 3 },
      "tokenizer.ggml.mask_token_id": { uint32: 4 },
    },
    [
      tensorOf("token_embd.weight", [width, vocabulary.length], 1),
      tensorOf("token_types.weight", [width, 2], 0.3),
      tensorOf("position_embd.weight", [width, longest], 0.3),
      ...norm("token_embd_norm"),
      ...blocks,
      ...linear("cls", width, width),
      ...linear("cls.output", width, 1, 1),
    ],
  );
}
