// The model's own chat template (Jinja, from its GGUF file or from the catalogue) -> prompt text.

import { randomBytes } from "node:crypto";
import { Template } from "@huggingface/jinja";
import { type ChatMessage, type ChatPrompt, EngineRefusal } from "../server/text-engine.ts";
import { LoadFailure } from "./load-failure.ts";
import { type PromptPart, promptTooLong } from "./prompt-bound.ts";
import { reasoningOf, toolFormatOf, toolFormats } from "./tools/answer-syntax.ts";
import { opensReasoning, type ReasoningName } from "./tools/reasoning.ts";
import type { ToolFormat } from "./tools/tool-format.ts";

export interface SpecialTexts {
  readonly bos: string;
  readonly eos: string;
  /** Texts of all control tokens. */
  readonly control?: readonly string[];
  /** Undefined: no prompt is too long to be rendered. */
  readonly contextLength?: number;
}

/** Setting of the deployment; `auto`: by the template. */
export interface ModelForms {
  readonly toolCallParser: string;
  readonly reasoningParser: "auto" | "off" | ReasoningName;
}

export interface RenderedPrompt {
  readonly parts: readonly PromptPart[];
  readonly reasoning: { readonly name: ReasoningName; readonly isOpen: boolean } | undefined;
}

/** Marks the end of the message that is to be continued; templates may trim around it, never inside. */
const continueHere = "\u2063stoker-continue-here\u2063";
const probeTool = {
  type: "function",
  function: { name: "stoker_probe", description: "probe", parameters: { type: "object", properties: {} } },
};

export class ChatTemplate {
  readonly toolFormat: ToolFormat | undefined;
  readonly #template: Template;
  readonly #texts: SpecialTexts;
  readonly #control: ControlTexts;
  readonly #reasoning: ReasoningName | undefined;

  /** Throws when the template cannot be read. */
  constructor(
    source: string,
    texts: SpecialTexts,
    forms: ModelForms = { toolCallParser: "auto", reasoningParser: "auto" },
  ) {
    this.#template = new Template(source);
    this.#texts = texts;
    this.#control = new ControlTexts(texts.control ?? [], texts.contextLength);
    const { toolCallParser: tools, reasoningParser: reasoning } = forms;
    const format = tools === "auto" ? toolFormatOf(source) : toolFormats[tools];
    this.toolFormat = this.#showsTools(source) ? format : undefined;
    this.#reasoning = reasoning === "auto" ? reasoningOf(source) : reasoning === "off" ? undefined : reasoning;
  }

  /** Throws EngineRefusal("prompt"), and "context_length" for too many control texts. */
  prompt(prompt: ChatPrompt): RenderedPrompt {
    const parts = this.#control.render(prompt, (hidden) => this.render(hidden));
    const name = this.#reasoning;
    const tail = parts.at(-1);
    const isOpen = name !== undefined && tail?.hasControl === true && opensReasoning(name, tail.text);
    return { parts, reasoning: name && { name, isOpen } };
  }

  /** Throws EngineRefusal("prompt") with the template's own words. */
  render(prompt: ChatPrompt): string {
    try {
      return this.#render(prompt);
    } catch (error) {
      // Templates that want the system message first get it first.
      const system = prompt.messages.findIndex((message) => message.role === "system");
      if (system > 0) {
        const messages = [...prompt.messages];
        messages.unshift(...messages.splice(system, 1));
        return this.render({ ...prompt, messages });
      }
      const words = error instanceof Error ? error.message : String(error);
      throw new EngineRefusal("prompt", `the model's chat template refuses these messages: ${words}`, {
        param: "messages",
        cause: error,
      });
    }
  }

  #render(prompt: ChatPrompt): string {
    const last = prompt.messages.at(-1);
    const continued = prompt.continuesLastMessage && last !== undefined;
    const messages = continued
      ? [...prompt.messages.slice(0, -1), { ...last, content: marked(last.content) }]
      : prompt.messages;
    const variables = { ...prompt.templateArguments, messages, ...(prompt.tools ? { tools: prompt.tools } : {}) };
    const text = this.#template.render({
      ...(inDoubles(variables) as typeof variables),
      add_generation_prompt: !continued,
      bos_token: this.#texts.bos,
      eos_token: this.#texts.eos,
    });
    if (!continued) return text;
    const end = text.lastIndexOf(continueHere);
    if (end < 0) throw new Error("the last message does not appear in the prompt, so it cannot be continued");
    return text.slice(0, end);
  }

  /** A template takes tools when it names them and writes something else when there is one. */
  #showsTools(source: string): boolean {
    if (!/\btools\b/.test(source)) return false;
    const prompt = { messages: [{ role: "user", content: "hi" }], continuesLastMessage: false, templateArguments: {} };
    try {
      return this.#render({ ...prompt, tools: [probeTool] }) !== this.#render({ ...prompt, tools: undefined });
    } catch {
      return false;
    }
  }
}

/** Throws LoadFailure. */
export function openTemplate(source: string, texts: SpecialTexts, forms?: ModelForms): ChatTemplate {
  try {
    return new ChatTemplate(source, texts, forms);
  } catch (error) {
    throw new LoadFailure("chat template not readable", (error as Error).message, { cause: error });
  }
}

/** Templates do not support bigint, the type of integers that no double holds (server/read-body.ts). */
function inDoubles(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(inDoubles);
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, inDoubles(one)]));
}

function marked(content: ChatMessage["content"]): ChatMessage["content"] {
  return typeof content === "string" ? content + continueHere : [...content, { type: "text", text: continueHere }];
}

/**
 * Text of a user that reads like a control token must stay text. Before the template runs, such text is replaced by a mark that
 * cannot be predicted; the rendered prompt is then cut at the marks, and the replaced text is tokenised as plain text.
 */
export class ControlTexts {
  readonly #texts: RegExp | undefined;
  readonly #contextLength: number;

  constructor(texts: readonly string[], contextLength = Number.POSITIVE_INFINITY) {
    this.#contextLength = contextLength;
    const forms = texts.filter((text) => text.length > 1).sort((a, b) => b.length - a.length);
    this.#texts = forms.length > 0 ? new RegExp(forms.map(RegExp.escape).join("|"), "g") : undefined;
  }

  /** Renders with every control text in any string of `values` hidden. Throws EngineRefusal("context_length"). */
  render<V>(values: V, render: (values: V) => string): readonly PromptPart[] {
    const found: string[] = [];
    const nonce = randomBytes(9).toString("hex");
    const mark = (text: string) => {
      // Each will be a token or more.
      if (found.length >= this.#contextLength) throw promptTooLong(this.#contextLength);
      return `stoker-control-${nonce}-${found.push(text) - 1}-`;
    };
    const hidden = this.#texts ? (hide(values, this.#texts, mark) as V) : values;
    const rendered = render(hidden);
    if (found.length === 0) return [{ text: rendered, hasControl: true }];
    return rendered
      .split(new RegExp(`stoker-control-${nonce}-(\\d+)-`))
      .map((text, i) =>
        i % 2 === 0 ? { text, hasControl: true } : { text: found[Number(text)] ?? "", hasControl: false },
      )
      .filter(({ text }) => text !== "");
  }
}

function hide(value: unknown, texts: RegExp, mark: (text: string) => string): unknown {
  if (typeof value === "string") return value.replace(texts, mark);
  if (Array.isArray(value)) return value.map((item) => hide(item, texts, mark));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, hide(item, texts, mark)]));
}
