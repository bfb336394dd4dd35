// The form of Llama 3.1 and later: the whole answer is {"name": .., "parameters": {..}}, more of them after "; ", possibly
// behind <|python_tag|>; after it also come calls of built-in tools, as `brave_search.call(query="..")`.
// https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/
import { literal } from "../grammar/grammar-rules.ts";
import { JsonCalls } from "./call-reader.ts";
import { MarkerParser } from "./marker-parser.ts";
import type { ToolEvent, ToolFormat } from "./tool-format.ts";

const tag = "<|python_tag|>";

export const llama3: ToolFormat = {
  name: "llama3",
  form: {
    call: (name, parameters) => `${literal(`{"name": ${JSON.stringify(name)}, "parameters": `)} ${parameters} "}"`,
    separator: "; ",
  },
  parser: () => new Llama3Parser(),
};

type State = "start" | "text" | "calls" | "tagged" | "code";

class Llama3Parser extends MarkerParser {
  readonly #calls = new JsonCalls();
  #state: State = "start";
  /** White space before the answer, or the words of a built-in call. */
  #held = "";

  constructor() {
    super([tag]);
  }

  protected override rest(): readonly ToolEvent[] {
    if (this.#state === "code") return builtIn(this.#held, this.#calls.count);
    const isSpace = this.#held === "" || this.#state === "tagged";
    return [...(isSpace ? [] : [{ kind: "text", text: this.#held } as const]), ...this.#calls.end()];
  }

  protected override marker(): readonly ToolEvent[] {
    this.#state = "tagged";
    this.#held = "";
    return [];
  }

  protected override text(text: string): readonly ToolEvent[] {
    switch (this.#state) {
      case "text":
        return [{ kind: "text", text }];
      case "calls":
        return this.#readCalls(text);
      case "code":
        this.#held += text;
        return [];
      case "start":
      case "tagged": {
        const whole = this.#held + text;
        const body = whole.trimStart();
        this.#held = "";
        if (body === "") this.#held = whole;
        else if (body.startsWith("{")) {
          this.#state = "calls";
          return this.#readCalls(body);
        } else if (this.#state === "tagged") {
          this.#state = "code";
          this.#held = body;
        } else {
          this.#state = "text";
          return [{ kind: "text", text: whole }];
        }
        return [];
      }
    }
  }

  /** An answer may be JSON and no call, and then go on as text. */
  #readCalls(text: string): readonly ToolEvent[] {
    const events: ToolEvent[] = [];
    for (const [i, char] of [...text].entries()) {
      const isBetween = !this.#calls.isInCall && this.#calls.count === 0 && events.some(({ kind }) => kind === "text");
      if (isBetween) {
        this.#state = "text";
        return [...events, { kind: "text", text: [...text].slice(i).join("") }];
      }
      events.push(...this.#calls.push(char));
    }
    if (!this.#calls.isInCall && this.#calls.count === 0 && events.some(({ kind }) => kind === "text"))
      this.#state = "text";
    return events;
  }
}

/** `name.call(key="value", ..)`; anything else is shown. */
function builtIn(code: string, index: number): readonly ToolEvent[] {
  const [, name, inner] = /^\s*(\w+)\.call\(([\s\S]*)\)\s*$/.exec(code) ?? [];
  if (name === undefined || inner === undefined) return [{ kind: "text", text: code }];
  const pairs = [...inner.matchAll(/(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|[-\w.]+)/g)].map(([, key, value]) => [
    key,
    json(value ?? ""),
  ]);
  return [
    { kind: "call", index, name },
    { kind: "arguments", index, text: JSON.stringify(Object.fromEntries(pairs)) },
  ];
}

function json(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
