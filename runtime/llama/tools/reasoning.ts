// Marks of a model family's reasoning, and readers that separate it from the answer in a stream.
import { HarmonyParser } from "./harmony.ts";
import { MarkerParser } from "./marker-parser.ts";
import type { ToolCallParser, ToolEvent } from "./tool-format.ts";

export const reasoningNames = ["think", "mistral", "granite", "gpt-oss"] as const;
export type ReasoningName = (typeof reasoningNames)[number];

interface Marks {
  readonly begin: readonly string[];
  readonly end: readonly string[];
  /** Marks around the answer that belong to the form. */
  readonly dropped: readonly string[];
}

const marks: Readonly<Record<Exclude<ReasoningName, "gpt-oss">, Marks>> = {
  // DeepSeek R1, Qwen 3, and Granite from 3.3, which puts the answer into <response>.
  think: { begin: ["<think>"], end: ["</think>"], dropped: ["<response>", "</response>"] },
  mistral: { begin: ["[THINK]"], end: ["[/THINK]"], dropped: [] },
  // Granite 3.2 writes words instead of marks.
  granite: {
    begin: ["Here is my thought process:", "Here's my thought process:"],
    end: ["Here is my response:", "Here's my response:"],
    dropped: [],
  },
};

/** `isOpen`: the prompt already began the reasoning. */
export function reasoningParser(name: ReasoningName, isOpen: boolean): ToolCallParser {
  return name === "gpt-oss" ? new HarmonyParser() : new ThinkParser(marks[name], isOpen);
}

/** Returns true if the rendered prompt ends inside the reasoning. */
export function opensReasoning(name: ReasoningName, prompt: string): boolean {
  if (name === "gpt-oss") return false;
  const tail = prompt.trimEnd();
  return marks[name].begin.some((mark) => tail.endsWith(mark));
}

class ThinkParser extends MarkerParser {
  readonly #marks: Marks;
  #isReasoning: boolean;
  /** Space at the edge of a part belongs to the form. */
  #isAtEdge = true;
  #gap = "";
  #hasReasoned = false;

  constructor(form: Marks, isOpen: boolean) {
    super([...form.begin, ...form.end, ...form.dropped]);
    this.#marks = form;
    this.#isReasoning = isOpen;
  }

  protected override rest(): readonly ToolEvent[] {
    return this.#gap === "" || this.#isReasoning || this.#hasReasoned ? [] : [{ kind: "text", text: this.#gap }];
  }

  protected override marker(marker: string): readonly ToolEvent[] {
    const { begin, end, dropped } = this.#marks;
    const isForm =
      (begin.includes(marker) && !this.#hasReasoned) ||
      (end.includes(marker) && this.#isReasoning) ||
      (dropped.includes(marker) && this.#hasReasoned && !this.#isReasoning);
    // Anywhere else it is text of the model.
    if (!isForm) return this.text(marker);
    if (begin.includes(marker)) this.#isReasoning = true;
    if (end.includes(marker)) this.#isReasoning = false;
    this.#hasReasoned = true;
    this.#isAtEdge = true;
    this.#gap = "";
    return [];
  }

  protected override text(text: string): readonly ToolEvent[] {
    const kind = this.#isReasoning ? "reasoning" : "text";
    const isInForm = this.#isReasoning || this.#hasReasoned;
    if (!isInForm && !this.#isAtEdge) return [{ kind, text }];
    const whole = this.#gap + text;
    const lead = this.#isAtEdge && isInForm ? whole.trimStart() : whole;
    // Space before the mark that ends a part is not part of it; without a form only the beginning waits for a mark.
    const certain = isInForm || this.#isAtEdge ? lead.trimEnd() : lead;
    this.#gap = lead.slice(certain.length);
    if (certain === "") return [];
    this.#isAtEdge = false;
    if (!isInForm) {
      const all = certain + this.#gap;
      this.#gap = "";
      return [{ kind, text: all }];
    }
    return [{ kind, text: certain }];
  }
}
