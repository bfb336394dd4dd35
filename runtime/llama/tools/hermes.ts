// The form of Hermes and Qwen: <tool_call>{"name": .., "arguments": {..}}</tool_call>, any number of them after text.
import { literal } from "../grammar/grammar-rules.ts";
import { overlap } from "../stop-scanner.ts";
import { CallReader } from "./call-reader.ts";
import type { ToolCallParser, ToolEvent, ToolFormat } from "./tool-format.ts";

const [open, close] = ["<tool_call>", "</tool_call>"];

export const hermes: ToolFormat = {
  name: "hermes",
  form: {
    call: (name, parameters) =>
      `${literal(`${open}\n{"name": ${JSON.stringify(name)}, "arguments": `)} ${parameters} ${literal(`}\n${close}`)}`,
    separator: "\n",
  },
  parser: () => new HermesParser(),
};

class HermesParser implements ToolCallParser {
  /** Text whose meaning is not certain yet. */
  #held = "";
  #call: CallReader | undefined;
  #calls = 0;
  #isAfterCall = false;
  /** Space before a call, shown only if it turns out to be none. */
  #gap = "";

  push(text: string): readonly ToolEvent[] {
    this.#held += text;
    const events: ToolEvent[] = [];
    for (;;) {
      if (this.#call) {
        const end = this.#held.indexOf(close);
        const body =
          end >= 0 ? this.#held.slice(0, end) : this.#held.slice(0, this.#held.length - overlap(this.#held, close));
        events.push(...this.#call.push(body));
        this.#held = this.#held.slice(body.length);
        if (end < 0) return events;
        this.#endCall(events);
        this.#held = this.#held.slice(close.length);
      } else {
        const start = this.#held.indexOf(open);
        const kept = start >= 0 ? start : this.#held.length - overlap(this.#held, open);
        this.#text(events, this.#held.slice(0, kept), start >= 0);
        if (start < 0) return events;
        this.#held = this.#held.slice(start + open.length);
        this.#call = new CallReader(this.#calls);
      }
    }
  }

  end(): readonly ToolEvent[] {
    const events: ToolEvent[] = [];
    if (this.#call) {
      events.push(...this.#call.push(this.#held));
      this.#endCall(events);
    } else if (this.#held.trim() !== "" || !this.#isAfterCall) {
      if (this.#held !== "") events.push({ kind: "text", text: this.#held });
    }
    this.#held = "";
    return events;
  }

  /** Line breaks around calls belong to the form, not to the answer: they wait for what follows. */
  #text(events: ToolEvent[], text: string, beforeCall: boolean): void {
    const lead = this.#isAfterCall ? text.replace(/^\s+/, "") : text;
    const certain = lead.trimEnd();
    if (certain !== "") {
      events.push({ kind: "text", text: certain });
      this.#isAfterCall = false;
    }
    if (beforeCall) this.#gap = lead.slice(certain.length);
    else this.#held = lead.slice(certain.length) + this.#held.slice(text.length);
  }

  #endCall(events: ToolEvent[]): void {
    const call = this.#call as CallReader;
    events.push(...call.end());
    // Text that is not a call is sent unchanged.
    if (call.isNamed) this.#calls += 1;
    else
      events.push({ kind: "text", text: `${this.#gap}${open}${call.raw}${this.#held.startsWith(close) ? close : ""}` });
    this.#isAfterCall = call.isNamed;
    this.#call = undefined;
  }
}
