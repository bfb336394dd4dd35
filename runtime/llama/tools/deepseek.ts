// The forms of DeepSeek between <｜tool▁calls▁begin｜> and <｜tool▁calls▁end｜>: V3 and R1 write a call as
// `function<｜tool▁sep｜>name` and a fenced block of JSON, V3.1 as `name<｜tool▁sep｜>{..}`.
// https://huggingface.co/deepseek-ai: tokenizer_config.json of each model
import { literal } from "../grammar/grammar-rules.ts";
import { MarkerParser } from "./marker-parser.ts";
import type { ToolEvent, ToolFormat } from "./tool-format.ts";

const [allBegin, allEnd] = ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"];
const [begin, sep, end] = ["<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"];
const fence = "```";

export const deepseek: ToolFormat = {
  name: "deepseek",
  form: {
    lead: allBegin,
    call: (name, parameters) =>
      `${literal(`${begin}function${sep}${name}\n${fence}json\n`)} ${parameters} ${literal(`\n${fence}${end}`)}`,
    separator: "\n",
    end: allEnd,
  },
  parser: () => new DeepSeekParser(),
};

class DeepSeekParser extends MarkerParser {
  #state: "text" | "between" | "head" | "body" | "arguments" = "text";
  #calls = 0;
  #head = "";
  /** Space that is part of the form when something of the form follows. */
  #held = "";
  #isFenced = false;

  constructor() {
    super([allBegin, allEnd, begin, sep, end]);
  }

  protected override marker(marker: string): readonly ToolEvent[] {
    switch (marker) {
      case begin:
        this.#state = "head";
        this.#head = "";
        this.#held = "";
        return [];
      case sep:
        if (this.#state === "head") this.#state = "body";
        return [];
      case end: {
        const rest = this.#state === "arguments" ? this.rest() : [];
        this.#state = "between";
        this.#held = "";
        return rest;
      }
      default:
        this.#state = "between";
        this.#held = "";
        return [];
    }
  }

  protected override text(text: string): readonly ToolEvent[] {
    switch (this.#state) {
      case "text": {
        const certain = (this.#held + text).trimEnd();
        this.#held = (this.#held + text).slice(certain.length);
        return certain === "" ? [] : [{ kind: "text", text: certain }];
      }
      case "between":
        return [];
      case "head":
        this.#head += text;
        return [];
      case "body": {
        this.#held += text;
        return this.#body();
      }
      case "arguments":
        this.#held += text;
        return this.#arguments();
    }
  }

  /** `function` before the separator means that the name follows it, before the fence. */
  #body(): readonly ToolEvent[] {
    const kind = this.#head.trim();
    this.#isFenced = kind === "function" || kind === "";
    const [, name, rest] = this.#isFenced
      ? (/^\s*([^\n`]+)\n```(?:json)?\n([\s\S]*)$/.exec(this.#held) ?? [])
      : [undefined, kind, this.#held];
    if (name === undefined || rest === undefined) return [];
    this.#state = "arguments";
    this.#held = rest;
    return [{ kind: "call", index: this.#calls++, name: name.trim() }, ...this.#arguments()];
  }

  /** Sends the arguments, except text that may be the closing fence. */
  #arguments(): readonly ToolEvent[] {
    const keep = /\s*`*\s*$/.exec(this.#held)?.[0].length ?? 0;
    return this.#send(this.#held.slice(0, this.#held.length - keep));
  }

  protected override rest(): readonly ToolEvent[] {
    if (this.#state !== "text" && this.#state !== "arguments") return [];
    if (this.#state === "text") return this.#held === "" ? [] : [{ kind: "text", text: this.#held }];
    const text = this.#isFenced ? this.#held.replace(/\s*`*\s*$/, "") : this.#held.trimEnd();
    this.#held = text;
    return this.#send(text);
  }

  #send(text: string): readonly ToolEvent[] {
    this.#held = this.#held.slice(text.length);
    return text === "" ? [] : [{ kind: "arguments", index: this.#calls - 1, text }];
  }
}
