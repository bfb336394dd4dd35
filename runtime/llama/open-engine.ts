// From configuration to a TextEngine: model, template, sequences.
import { readFile } from "node:fs/promises";
import type { TextEngine } from "../server/text-engine.ts";
import { ChatTemplate } from "./chat-template.ts";
import { LoadFailure } from "./load-failure.ts";
import { type ModelOptions, openModel } from "./open-model.ts";

export interface EngineOptions extends ModelOptions {
  /** Replaces the template of the model file. */
  readonly chatTemplateFile: string | undefined;
  readonly onRound: (size: number, seconds: number) => void;
}

/** Throws LoadFailure. */
export async function openEngine(options: EngineOptions): Promise<TextEngine> {
  const replacement = options.chatTemplateFile === undefined ? undefined : await readTemplate(options.chatTemplateFile);
  const open = await openModel(options);
  const { LlamaEngine } = await import("./llama-engine.ts");
  const { tokens, fileInfo } = open.model;
  const source = replacement ?? fileInfo.metadata.tokenizer.chat_template;
  const texts = { bos: tokens.bosString ?? "", eos: tokens.eosString ?? "" };
  return new LlamaEngine(open, source === undefined ? undefined : template(source, texts), options.onRound);
}

function template(source: string, texts: { bos: string; eos: string }): ChatTemplate {
  try {
    return new ChatTemplate(source, texts);
  } catch (error) {
    throw new LoadFailure("chat template not readable", (error as Error).message, { cause: error });
  }
}

async function readTemplate(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new LoadFailure("chat template not readable", path, { cause: error });
  }
}
