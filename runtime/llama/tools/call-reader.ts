// Reads {"name": .., "arguments": ..} while it arrives. Arguments leave as raw JSON text as soon as the name is known;
// arguments that a model wrote as a string of JSON leave whole, unwrapped.
import type { ToolEvent } from "./tool-format.ts";

export class CallReader {
  /** Everything read so far. */
  raw = "";
  readonly #index: number;
  #name: string | undefined;
  /** Start of the value of `arguments` in raw, and the length already sent. */
  #argumentsAt = -1;
  #sent = 0;
  #argumentsEnd = -1;
  /** Depth 1 = between the braces of the call itself. */
  #depth = 0;
  #hasOpened = false;
  #scanned = 0;
  #isInString = false;
  #stringStart = 0;
  #key: string | undefined;
  #isWaitingForValue = false;

  constructor(index: number) {
    this.#index = index;
  }

  /** Its last brace was read. */
  get isClosed(): boolean {
    return this.#hasOpened && this.#depth === 0;
  }

  get isNamed(): boolean {
    return this.#name !== undefined;
  }

  push(text: string): readonly ToolEvent[] {
    this.raw += text;
    const events: ToolEvent[] = [];
    while (this.#scanned < this.raw.length) {
      const at = this.#scanned;
      const char = this.raw[at] as string;
      if (this.#isInString && char === "\\") {
        // An escape is read with the character it escapes.
        if (at + 1 >= this.raw.length) break;
        this.#scanned += 2;
        continue;
      }
      this.#scanned++;
      this.#read(char, at, events);
    }
    this.#sendArguments(events);
    return events;
  }

  end(): readonly ToolEvent[] {
    const events: ToolEvent[] = [];
    if (this.#argumentsAt < 0) {
      if (this.isNamed) events.push({ kind: "arguments", index: this.#index, text: "{}" });
    } else {
      if (this.#argumentsEnd < 0) this.#argumentsEnd = this.raw.length;
      this.#sendArguments(events);
    }
    return events;
  }

  #read(char: string, at: number, events: ToolEvent[]): void {
    if (this.#isInString) {
      if (char === '"') this.#endString(at, events);
      return;
    }
    if (this.#isWaitingForValue && !/\s/.test(char)) {
      this.#isWaitingForValue = false;
      if (this.#key === "arguments" || this.#key === "parameters") this.#argumentsAt = at;
    }
    if (char === '"') {
      this.#isInString = true;
      this.#stringStart = at;
    } else if (char === "{" || char === "[") {
      this.#depth++;
      this.#hasOpened = true;
    } else if (char === "}" || char === "]") {
      this.#depth--;
      if (this.#depth === 1 && this.#isInArguments) this.#argumentsEnd = at + 1;
      else if (this.#depth === 0 && this.#isInArguments) this.#argumentsEnd = at;
    } else if (this.#depth === 1 && char === ":") this.#isWaitingForValue = true;
    else if (this.#depth === 1 && char === ",") {
      if (this.#isInArguments) this.#argumentsEnd = at;
      this.#key = undefined;
    }
  }

  get #isInArguments(): boolean {
    return this.#argumentsAt >= 0 && this.#argumentsEnd < 0;
  }

  #endString(at: number, events: ToolEvent[]): void {
    this.#isInString = false;
    if (this.#depth !== 1) return;
    if (this.#isInArguments) {
      this.#argumentsEnd = at + 1;
      return;
    }
    const value = parse(this.raw.slice(this.#stringStart, at + 1));
    if (this.#key === undefined) this.#key = value;
    else if (this.#key === "name" && this.#name === undefined && value !== undefined) {
      this.#name = value;
      events.push({ kind: "call", index: this.#index, name: value });
    }
  }

  #sendArguments(events: ToolEvent[]): void {
    if (!this.isNamed || this.#argumentsAt < 0) return;
    const from = this.#argumentsAt + this.#sent;
    const text = this.raw.slice(from, this.#argumentsEnd < 0 ? this.raw.length : this.#argumentsEnd);
    if (text === "") return;
    if (this.raw[this.#argumentsAt] === '"') {
      if (this.#argumentsEnd < 0) return;
      events.push({ kind: "arguments", index: this.#index, text: parse(text) ?? text });
    } else events.push({ kind: "arguments", index: this.#index, text });
    this.#sent += text.length;
  }
}

function parse(text: string): string | undefined {
  try {
    return JSON.parse(text) as string;
  } catch {
    return undefined;
  }
}

/**
 * Reads calls that are JSON objects one after the other, with or without a list around them. An object that names no
 * function is shown as the text it was.
 */
export class JsonCalls {
  #call: CallReader | undefined;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Between two objects only what separates them is expected: it is dropped. */
  push(text: string): readonly ToolEvent[] {
    const events: ToolEvent[] = [];
    for (const char of text) {
      if (!this.#call && char !== "{") continue;
      this.#call ??= new CallReader(this.#count);
      events.push(...this.#call.push(char));
      if (this.#call.isClosed) this.#endCall(events);
    }
    return events;
  }

  get isInCall(): boolean {
    return this.#call !== undefined;
  }

  end(): readonly ToolEvent[] {
    const events: ToolEvent[] = [];
    if (this.#call) this.#endCall(events);
    return events;
  }

  #endCall(events: ToolEvent[]): void {
    const call = this.#call as CallReader;
    this.#call = undefined;
    events.push(...call.end());
    if (call.isNamed) this.#count += 1;
    else events.push({ kind: "text", text: call.raw });
  }
}
