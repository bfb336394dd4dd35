// The tokenizer of a pipeline's text encoder, from tokenizer.json or from what older exports keep: CLIP's vocabulary and merges.
import { LoadFailure } from "../llama/load-failure.ts";
import type { Json, ModelFolder } from "./model-folder.ts";
import { openTokenizer, type Tokenizer } from "./tokenizer.ts";

const start = "<|startoftext|>";
const end = "<|endoftext|>";

/** `name`: the folder of the tokenizer in the pipeline's. Throws LoadFailure. */
export async function openClipTokenizer(folder: ModelFolder, name: string): Promise<Tokenizer> {
  const text = (file: string) => folder.text(`${name}/${file}`);
  const vocab = await folder.json(`${name}/vocab.json`);
  const merges = await text("merges.txt");
  const settings = await folder.json(`${name}/tokenizer_config.json`);
  const json = async (file: string): Promise<Json> => {
    const found = await folder.json(`${name}/${file}`);
    if (file === "tokenizer_config.json") return { pad_token: end, unk_token: end, ...settings };
    if (file !== "tokenizer.json" || Object.keys(found).length > 0 || merges === undefined) return found;
    return clipTokenizer(folder.root, vocab, merges);
  };
  return openTokenizer({
    ...folder,
    root: folder.path(name),
    config: {},
    json,
    text,
    path: (file) => folder.path(`${name}/${file}`),
  });
}

/** As transformers' CLIPTokenizerFast makes it of the same files. */
function clipTokenizer(root: string, vocab: Json, merges: string): Json {
  const idOf = (token: string) => {
    const id = vocab[token];
    if (typeof id === "number") return id;
    throw new LoadFailure(
      "tokenizer not readable",
      `${root}: its vocab.json has no ${token}, which CLIP's tokenizer has`,
    );
  };
  const added = [start, end].map((content) => ({
    id: idOf(content),
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  }));
  return {
    version: "1.0",
    added_tokens: added,
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "NFC" },
        { type: "Replace", pattern: { Regex: "\\s+" }, content: " " },
        { type: "Lowercase" },
      ],
    },
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        {
          type: "Split",
          pattern: { Regex: "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+" },
          behavior: "Removed",
          invert: true,
        },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
      ],
    },
    post_processor: {
      type: "RobertaProcessing",
      sep: [end, idOf(end)],
      cls: [start, idOf(start)],
      trim_offsets: false,
      add_prefix_space: false,
    },
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      unk_token: end,
      continuing_subword_prefix: "",
      end_of_word_suffix: "</w>",
      fuse_unk: false,
      byte_fallback: false,
      vocab,
      merges: merges
        .split(/\r?\n/)
        .filter((line) => line !== "" && !line.startsWith("#version"))
        .map((line) => line.split(" ")),
    },
  };
}
