// The harmony form of gpt-oss: messages with a channel each. `analysis` is reasoning, `final` the answer, `commentary` with a
// recipient a call and without one text before it. https://cookbook.openai.com/articles/openai-harmony
import { literal } from "../grammar/grammar-rules.ts";
import { MarkerParser } from "./marker-parser.ts";
import type { ToolCallParser, ToolEvent, ToolFormat } from "./tool-format.ts";

const [start, channel, message, constrain] = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"];
const ends = ["<|end|>", "<|call|>", "<|return|>"];

/** Calls are read together with the channels. */
export const harmonyTools: ToolFormat = {
  name: "gpt-oss",
  form: {
    call: (name, parameters) =>
      `${literal(`${channel}commentary to=functions.${name} ${constrain}json${message}`)} ${parameters}`,
    end: "<|call|>",
  },
  parser: () => plainText,
};

const plainText: ToolCallParser = {
  push: (text) => (text === "" ? [] : [{ kind: "text", text }]),
  end: () => [],
};

export class HarmonyParser extends MarkerParser {
  #state: "plain" | "head" | "analysis" | "text" | "call" = "plain";
  #head = "";
  #calls = 0;

  constructor() {
    super([start, channel, message, constrain, ...ends]);
  }

  protected override marker(marker: string): readonly ToolEvent[] {
    if (marker === message) return this.#begin();
    if (ends.includes(marker)) {
      this.#state = "head";
      this.#head = "";
    } else {
      if (this.#state !== "head") this.#head = "";
      this.#state = "head";
      // Markers separate words of the head.
      this.#head += marker === start ? "" : ` ${marker === channel ? channel : ""}`;
    }
    return [];
  }

  #begin(): readonly ToolEvent[] {
    const recipient = /\bto=(?:functions\.)?([\w.-]+)/.exec(this.#head)?.[1];
    const name = /<\|channel\|>\s*(\w+)/.exec(this.#head)?.[1];
    this.#head = "";
    if (recipient !== undefined) {
      this.#state = "call";
      return [{ kind: "call", index: this.#calls++, name: recipient }];
    }
    this.#state = name === "analysis" ? "analysis" : "text";
    return [];
  }

  protected override text(text: string): readonly ToolEvent[] {
    switch (this.#state) {
      case "head":
        this.#head += text;
        return [];
      case "analysis":
        return [{ kind: "reasoning", text }];
      case "call":
        return [{ kind: "arguments", index: this.#calls - 1, text }];
      case "plain":
      case "text":
        return [{ kind: "text", text }];
    }
  }
}
