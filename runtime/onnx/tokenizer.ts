// The model's own tokenizer, from its tokenizer.json.
import { Tokenizer as HubTokenizer } from "@huggingface/tokenizers";
import { LoadFailure } from "../llama/load-failure.ts";
import { isTooLong, type TextBound, widestToken } from "../llama/prompt-bound.ts";
import type { Json, ModelFolder } from "./model-folder.ts";

export interface Encoded {
  readonly ids: readonly number[];
  /** Index of the text of a pair to which a token belongs. */
  readonly typeIds: readonly number[];
}

export interface Tokenizer {
  /** Tokens of one input, special ones included. */
  readonly longest: number;
  readonly padId: number;
  readonly size: number;
  /** Throws TextTooLong for one that is so much too long that it is not worth counting. */
  encode(text: string, pair?: string): Encoded;
  /** However long it is. */
  encodeLong(text: string, pair?: string): Encoded;
  /** Without the special tokens around. */
  encodeBare(text: string): readonly number[];
  /** Puts the special tokens around ids that are given as such. */
  surround(ids: readonly number[]): Encoded;
  /** As text, with `##` before what goes on in a word; undefined for the unknown token. */
  pieceText(id: number): string | undefined;
  idOf(token: string): number | undefined;
  decode(ids: readonly number[]): string;
  isSpecial(id: number): boolean;
  isUnknown(id: number): boolean;
  readonly maskToken: string | undefined;
}

export class TextTooLong extends Error {}

/** Throws LoadFailure. */
export async function openTokenizer(folder: ModelFolder): Promise<Tokenizer> {
  const source = await folder.json("tokenizer.json");
  if (Object.keys(source).length === 0)
    throw new LoadFailure(
      "no tokenizer",
      `${folder.root} holds no tokenizer.json; export the model with its fast tokenizer`,
    );
  const settings = await folder.json("tokenizer_config.json");
  const inner = hubTokenizer(source, settings);
  const special = new Set<number>();
  for (const [id, token] of inner.get_added_tokens_decoder()) if (token.special) special.add(id);
  const nameOf = (key: string): string | undefined => {
    const value = settings[key];
    if (typeof value === "string") return value;
    const content = (value as { content?: unknown } | null | undefined)?.content;
    return typeof content === "string" ? content : undefined;
  };
  const encodeLong = (text: string, pair?: string): Encoded => {
    const { ids, token_type_ids: typeIds } = inner.encode(text, {
      return_token_type_ids: true,
      text_pair: pair ?? null,
    });
    return { ids, typeIds };
  };
  const bound: TextBound = {
    maxTokens: longestInput(folder.config, settings, await folder.json("sentence_bert_config.json")),
    widestToken: widestToken(inner.get_vocab(true).keys()),
  };
  const countOf = (piece: string) => inner.encode(piece, { add_special_tokens: false }).ids.length;
  const encode = (text: string, pair?: string): Encoded => {
    for (const one of [text, pair ?? ""])
      if (isTooLong(one, bound, countOf)) throw new TextTooLong(`more than ${bound.maxTokens} tokens`);
    return encodeLong(text, pair);
  };
  const around = inner.encode("").ids;
  const unknown = inner.token_to_id(nameOf("unk_token") ?? "");
  const isBytes = JSON.stringify(source["decoder"] ?? {}).includes("ByteLevel");
  return {
    longest: bound.maxTokens,
    padId: inner.token_to_id(nameOf("pad_token") ?? "") ?? numberOf(folder.config["pad_token_id"]) ?? 0,
    size: inner.get_vocab(true).size,
    encode,
    encodeLong,
    encodeBare: (text) => inner.encode(text, { add_special_tokens: false }).ids,
    surround: (ids) => {
      // The special tokens of an empty text are those of every text: half of them before, half after, the first one first.
      const before = Math.ceil(around.length / 2);
      const whole = [...around.slice(0, before), ...ids, ...around.slice(before)];
      return { ids: whole, typeIds: whole.map(() => 0) };
    },
    pieceText: (id) => {
      if (id === unknown) return undefined;
      const token = inner.id_to_token(id);
      // Tokens of bytes are text only once they are decoded.
      return isBytes ? inner.decode([id]) : token;
    },
    idOf: (token) => inner.token_to_id(token),
    decode: (ids) => inner.decode([...ids], { skip_special_tokens: true }),
    isSpecial: (id) => special.has(id),
    isUnknown: (id) => id === unknown,
    maskToken: nameOf("mask_token"),
  };
}

/** Throws LoadFailure. */
export function hubTokenizer(source: Json, settings: Json): HubTokenizer {
  try {
    return new HubTokenizer(source, settings);
  } catch (error) {
    throw new LoadFailure("tokenizer not readable", (error as Error).message, { cause: error });
  }
}

/** The smallest of what the configurations say; tokenizers without a bound name an absurd one. */
function longestInput(config: Json, settings: Json, sentence: Json): number {
  const positions = numberOf(config["max_position_embeddings"]) ?? numberOf(config["n_positions"]);
  // RoBERTa counts its positions from past the padding.
  const isOffset = ["roberta", "xlm-roberta", "camembert", "mpnet"].includes(String(config["model_type"]));
  const bounds = [
    positions === undefined ? undefined : positions - (isOffset ? 2 : 0),
    numberOf(settings["model_max_length"]),
    numberOf(sentence["max_seq_length"]),
  ];
  return Math.min(131_072, ...bounds.filter((bound) => bound !== undefined && bound > 0).map(Number));
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}
