// Formats that announce calls by one marker: the calls follow as a JSON list, or each as a name, a mark and its arguments.
import { literal } from "../grammar/grammar-rules.ts";
import { JsonCalls } from "./call-reader.ts";
import { MarkerParser } from "./marker-parser.ts";
import type { ToolEvent, ToolFormat } from "./tool-format.ts";

interface ListedForm {
  /** Any of them begins the calls. */
  readonly begin: readonly string[];
  /** Parts of a call that is not JSON as a whole: what ends its name, and what separates name and arguments. */
  readonly named?: { readonly id: string; readonly args: string };
}

class ListedCallsParser extends MarkerParser {
  readonly #form: ListedForm;
  readonly #list = new JsonCalls();
  #calls = 0;
  #state: "text" | "begun" | "list" | "name" | "id" | "arguments" = "text";
  /** White space that belongs to the form if a call follows, to the text if none does. */
  #gap = "";
  #name = "";

  constructor(form: ListedForm) {
    super([...form.begin, ...(form.named ? [form.named.id, form.named.args] : [])]);
    this.#form = form;
  }

  protected override rest(): readonly ToolEvent[] {
    const isLoose = this.#state === "name" || this.#state === "id";
    if (isLoose && this.#name.trim() !== "") return [{ kind: "text", text: this.#name }];
    const gap: readonly ToolEvent[] =
      this.#state === "text" && this.#gap !== "" ? [{ kind: "text", text: this.#gap }] : [];
    return [...this.#list.end(), ...gap];
  }

  protected override marker(marker: string): readonly ToolEvent[] {
    if (this.#form.begin.includes(marker)) {
      this.#state = "begun";
      this.#gap = "";
      this.#name = "";
      return [];
    }
    if (marker === this.#form.named?.id && this.#state === "name") {
      this.#state = "id";
      return [];
    }
    if (marker === this.#form.named?.args && (this.#state === "name" || this.#state === "id")) {
      this.#state = "arguments";
      return [{ kind: "call", index: this.#calls++, name: this.#name.trim() }];
    }
    return this.text(marker);
  }

  protected override text(text: string): readonly ToolEvent[] {
    switch (this.#state) {
      case "text": {
        const certain = (this.#gap + text).trimEnd();
        this.#gap = (this.#gap + text).slice(certain.length);
        return certain === "" ? [] : [{ kind: "text", text: certain }];
      }
      case "begun": {
        const body = text.trimStart();
        if (body === "") return [];
        this.#state = this.#form.named && !/^[[{]/.test(body) ? "name" : "list";
        return this.text(body);
      }
      case "list":
        return this.#list.push(text);
      case "name":
        this.#name += text;
        return [];
      case "id":
        return [];
      case "arguments":
        return [{ kind: "arguments", index: this.#calls - 1, text }];
    }
  }
}

const listed = (name: string, lead: string, form: ListedForm): ToolFormat => ({
  name,
  form: {
    lead: `${lead}[`,
    call: (called, parameters) => `${literal(`{"name": ${JSON.stringify(called)}, "arguments": `)} ${parameters} "}"`,
    separator: ", ",
    end: "]",
  },
  parser: () => new ListedCallsParser(form),
});

/**
 * Granite 3: <|tool_call|>[{"name": .., "arguments": {..}}, ..], from 3.1 also written <tool_call>[..].
 * https://www.ibm.com/granite/docs/models/granite/
 */
export const granite = listed("granite", "<|tool_call|>", { begin: ["<|tool_call|>", "<tool_call>"] });
/**
 * Mistral: [TOOL_CALLS][{"name": .., "arguments": {..}}, ..] up to its seventh tokeniser, later [TOOL_CALLS]name[ARGS]{..} for
 * each call, with or without [CALL_ID]. https://docs.mistral.ai, mistral-common
 */
export const mistral = listed("mistral", "[TOOL_CALLS]", {
  begin: ["[TOOL_CALLS]"],
  named: { id: "[CALL_ID]", args: "[ARGS]" },
});
