// A model that reads pictures, from its folder to an engine: graphs, tokenizer, chat template, a first run.
import type { Tokenizer } from "@huggingface/tokenizers";
import { openTemplate } from "../../llama/chat-template.ts";
import { LoadFailure } from "../../llama/load-failure.ts";
import { widestToken } from "../../llama/prompt-bound.ts";
import type { Json, ModelFolder } from "../../onnx/model-folder.ts";
import { openPictureTiler } from "../../onnx/picture-tiler.ts";
import { hubTokenizer } from "../../onnx/tokenizer.ts";
import type { TextEngine } from "../../server/text-engine.ts";
import type { TaskDeps } from "../task-engine.ts";
import { type ImageTokens, ideficsTexts } from "./image-prompt.ts";
import { VisionEngine, type VisionTokenizer } from "./vision-engine.ts";
import { openVisionGraphs } from "./vision-graphs.ts";

/** Throws LoadFailure. */
export async function openVision(deps: TaskDeps, folder: ModelFolder): Promise<TextEngine> {
  const source = await folder.json("tokenizer.json");
  const settings = await folder.json("tokenizer_config.json");
  const inner = hubTokenizer(source, settings);
  const imageToken = inner.token_to_id(ideficsTexts.image);
  if (imageToken === undefined || inner.token_to_id(ideficsTexts.around) === undefined)
    throw new LoadFailure(
      "unsupported model",
      `pictures are read by models of Idefics3's and SmolVLM's form, and ${folder.root} has no token ${ideficsTexts.image}`,
    );
  const special = [...inner.get_added_tokens_decoder().values()].map(({ content }) => content);
  const templateText =
    (await folder.text("chat_template.jinja")) ??
    textIn(settings, "chat_template") ??
    textIn(await folder.json("chat_template.json"), "chat_template");
  const imageTokens: ImageTokens = { ...ideficsTexts, perTile: await featuresPerTile(folder) };
  const contextLength = await longestText(folder, settings);
  const [bos, eos] = [tokenText(settings["bos_token"]), tokenText(settings["eos_token"])];
  const texts = { bos, eos, control: special, contextLength };
  const template = templateText === undefined ? undefined : openTemplate(templateText, texts);
  const graphs = await openVisionGraphs(deps, folder);
  const tiler = await openPictureTiler(folder);
  const ends = await endTokens(folder, inner.token_to_id(texts.eos));
  const tokenizer = tokenizerOf(inner);
  // The first run of a graph is slow: it allocates, and a GPU compiles.
  const { memory } = await graphs.read(await graphs.embed([imageToken]), graphs.nothing, true);
  graphs.forget(memory);
  return new VisionEngine(
    { graphs, tiler, tokenizer, template, imageTokens, imageToken, ends, contextLength },
    {
      maxBatchSize: deps.maxBatchSize,
      provider: deps.graphs.provider,
      warnings: deps.graphs.warnings,
      observe: deps.observe,
      close: async () => {
        await tiler.close();
        await deps.graphs.close();
      },
    },
  );
}

function tokenizerOf(inner: Tokenizer): VisionTokenizer {
  const encode = (text: string) => (text === "" ? [] : inner.encode(text, { add_special_tokens: false }).ids);
  const decode = (tokens: readonly number[], hidesSpecial: boolean) =>
    tokens.length === 0
      ? ""
      : inner.decode([...tokens], { skip_special_tokens: hidesSpecial, clean_up_tokenization_spaces: false });
  return {
    widestToken: widestToken(inner.get_vocab(true).keys()),
    encode,
    // Cut in two, no special token is found in it.
    encodePlain: (text) => [...encode(text.slice(0, 1)), ...encode(text.slice(1))],
    decode: (tokens) => decode(tokens, true),
    textOf: (token) => decode([token], false),
  };
}

async function endTokens(folder: ModelFolder, eos: number | undefined): Promise<ReadonlySet<number>> {
  const lists = [await folder.json("generation_config.json"), folder.config, nested(folder.config)];
  const named = lists.flatMap(({ eos_token_id: id }) => id ?? []).filter((id) => typeof id === "number");
  return new Set(eos === undefined ? named : [...named, eos]);
}

/** Each tile's patches, gathered `scale_factor` by `scale_factor`. */
async function featuresPerTile(folder: ModelFolder): Promise<number> {
  const said = (await folder.json("processor_config.json"))["image_seq_len"];
  if (typeof said === "number") return said;
  const vision = (folder.config["vision_config"] ?? {}) as Json;
  const [size, patch, scale] = [vision["image_size"], vision["patch_size"], folder.config["scale_factor"]].map(Number);
  const found = ((size as number) / (patch as number) / (scale as number)) ** 2;
  if (Number.isInteger(found) && found > 0) return found;
  throw new LoadFailure(
    "model configuration not readable",
    `${folder.root}: neither processor_config.json (image_seq_len) nor config.json says how many features a picture has`,
  );
}

async function longestText(folder: ModelFolder, settings: Json): Promise<number> {
  const bounds = [
    folder.config["max_position_embeddings"],
    nested(folder.config)["max_position_embeddings"],
    settings["model_max_length"],
  ];
  return Math.min(131_072, ...bounds.filter((bound): bound is number => typeof bound === "number" && bound > 0));
}

const nested = (config: Json) => (config["text_config"] ?? {}) as Json;
const tokenText = (value: unknown) =>
  typeof value === "string" ? value : ((value as { content?: string } | null | undefined)?.content ?? "");
const textIn = (json: Json, key: string) => (typeof json[key] === "string" ? (json[key] as string) : undefined);
