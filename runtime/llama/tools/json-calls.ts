// Reads calls that stand as JSON objects one after the other, with or without a list around them. An object that names no
// function is shown as the text it was.

import { CallReader } from "./call-reader.ts";
import type { ToolEvent } from "./tool-format.ts";

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
