// From configuration to an engine: model, template, sequences; or vectors, where the file is of such a model.
import { readFile } from "node:fs/promises";
import type { LlamaModel } from "node-llama-cpp";
import type { Engine } from "../server/engine.ts";
import type { TextEngine } from "../server/text-engine.ts";
import { type ModelForms, openTemplate } from "./chat-template.ts";
import type { LlamaEngineOptions } from "./llama-engine.ts";
import { LoadFailure } from "./load-failure.ts";
import type { ModelOptions } from "./model-options.ts";
import { openModel } from "./open-model.ts";
import { openVectors, type VectorKind, vectorKind } from "./open-vectors.ts";

export interface EngineOptions extends ModelOptions, LlamaEngineOptions, ModelForms {
  readonly chatTemplateFile: string | undefined;
  /** Task of the model; empty: from its file. */
  readonly task: string;
}

/** Throws LoadFailure. */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const kind = await kindOf(options);
  if (kind) return openVectors(options, kind);
  return openText(options);
}

const kinds = new Map<string, VectorKind | undefined>();

/** Read once: the file of a path never changes. */
async function kindOf(options: EngineOptions): Promise<VectorKind | undefined> {
  const { modelPath } = options;
  if (!kinds.has(modelPath)) kinds.set(modelPath, await readKind(options));
  return kinds.get(modelPath);
}

/** A file that cannot be read is explained where it is loaded. */
async function readKind({ task, modelPath }: EngineOptions): Promise<VectorKind | undefined> {
  const { readGgufFileInfo } = await import("node-llama-cpp");
  const file = { sourceType: "filesystem", readTensorInfo: false } as const;
  const info = await readGgufFileInfo(modelPath, file).catch(() => undefined);
  const pooling = (info?.architectureMetadata as { readonly pooling_type?: number } | undefined)?.pooling_type;
  return info && vectorKind(task, info.metadata.general.architecture, pooling);
}

async function openText(options: EngineOptions): Promise<TextEngine> {
  const replacement = options.chatTemplateFile === undefined ? undefined : await readTemplate(options.chatTemplateFile);
  const open = await openModel(options);
  const { LlamaEngine } = await import("./llama-engine.ts");
  const { tokens, fileInfo } = open.model;
  const control = controlTexts(open.model);
  const source = replacement ?? fileInfo.metadata.tokenizer.chat_template;
  const texts = {
    bos: tokens.bosString ?? "",
    eos: tokens.eosString ?? "",
    control,
    contextLength: open.contextLength,
  };
  return new LlamaEngine(open, source === undefined ? undefined : openTemplate(source, texts, options), options);
}

function controlTexts(model: LlamaModel): readonly string[] {
  const texts: string[] = [];
  for (const token of model.iterateAllTokens())
    if (model.getTokenAttributes(token).control) texts.push(model.detokenize([token], true));
  return texts;
}

async function readTemplate(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new LoadFailure("chat template not readable", path, { cause: error });
  }
}
