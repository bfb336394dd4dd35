// Reads an answer whose parts are separated by markers. Text that may be the beginning of a marker is held back.
import { overlap } from "../stop-scanner.ts";
import type { ToolCallParser, ToolEvent } from "./tool-format.ts";

export abstract class MarkerParser implements ToolCallParser {
  readonly #markers: readonly string[];
  #held = "";

  constructor(markers: readonly string[]) {
    this.#markers = markers;
  }

  protected abstract marker(marker: string): readonly ToolEvent[];
  protected abstract text(text: string): readonly ToolEvent[];

  /** Events after the last text. */
  protected rest(): readonly ToolEvent[] {
    return [];
  }

  push(text: string): readonly ToolEvent[] {
    this.#held += text;
    const events: ToolEvent[] = [];
    for (let found = this.#first(); found; found = this.#first()) {
      if (found.at > 0) events.push(...this.text(this.#held.slice(0, found.at)));
      events.push(...this.marker(found.marker));
      this.#held = this.#held.slice(found.at + found.marker.length);
    }
    const keep = Math.max(0, ...this.#markers.map((marker) => overlap(this.#held, marker)));
    const certain = this.#held.slice(0, this.#held.length - keep);
    this.#held = this.#held.slice(certain.length);
    return certain === "" ? events : [...events, ...this.text(certain)];
  }

  end(): readonly ToolEvent[] {
    const text = this.#held;
    this.#held = "";
    return [...(text === "" ? [] : this.text(text)), ...this.rest()];
  }

  /** The earliest marker; of two at one position the longer. */
  #first(): { readonly at: number; readonly marker: string } | undefined {
    return this.#markers
      .map((marker) => ({ marker, at: this.#held.indexOf(marker) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at || b.marker.length - a.marker.length)[0];
  }
}
