// The harmony form of gpt-oss: messages with a channel each. `analysis` is reasoning, `final` the answer, `commentary` with a
// recipient a call and without one text before it. https://cookbook.openai.com/articles/openai-harmony
import { literal } from "../grammar/grammar-rules.ts";
import { callGrammar } from "./call-grammar.ts";
import { MarkerStream } from "./marker-stream.ts";
import type { ToolCallParser, ToolEvent, ToolFormat } from "./tool-format.ts";

const [start, channel, message, constrain] = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"];
const ends = ["<|end|>", "<|call|>", "<|return|>"];

/** Calls are read together with the channels. */
export const harmonyTools: ToolFormat = {
  name: "gpt-oss",
  grammar: (tools) =>
    callGrammar(tools, 1, {
      call: (name, parameters) =>
        `${literal(`${channel}commentary to=functions.${name} ${constrain}json${message}`)} ${parameters}`,
      separator: "",
      end: "<|call|>",
    }),
  parser: () => new PlainText(),
};

class PlainText implements ToolCallParser {
  push(text: string): readonly ToolEvent[] {
    return text === "" ? [] : [{ kind: "text", text }];
  }
  end(): readonly ToolEvent[] {
    return [];
  }
}

export class HarmonyParser implements ToolCallParser {
  readonly #stream = new MarkerStream([start, channel, message, constrain, ...ends]);
  #state: "plain" | "head" | "analysis" | "text" | "call" = "plain";
  #head = "";
  #calls = 0;

  push(text: string): readonly ToolEvent[] {
    return this.#stream
      .push(text)
      .flatMap((segment) => (segment.kind === "marker" ? this.#marker(segment.text) : this.#text(segment.text)));
  }

  end(): readonly ToolEvent[] {
    return this.#stream.flush().flatMap(({ text }) => this.#text(text));
  }

  #marker(marker: string): readonly ToolEvent[] {
    if (marker === message) return this.#begin();
    if (ends.includes(marker)) {
      this.#state = "head";
      this.#head = "";
    } else {
      if (this.#state !== "head") this.#head = "";
      this.#state = "head";
      // The marks stand between words of the head.
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

  #text(text: string): readonly ToolEvent[] {
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
