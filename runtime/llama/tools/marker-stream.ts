// Splits text that comes in pieces at the markers of a format. What may be the beginning of a marker is held back.
import { overlap } from "../stop-scanner.ts";

export type Segment =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "marker"; readonly text: string };

export class MarkerStream {
  readonly #markers: readonly string[];
  #held = "";

  constructor(markers: readonly string[]) {
    this.#markers = markers;
  }

  push(text: string): readonly Segment[] {
    this.#held += text;
    const segments: Segment[] = [];
    for (let found = this.#first(); found; found = this.#first()) {
      if (found.at > 0) segments.push({ kind: "text", text: this.#held.slice(0, found.at) });
      segments.push({ kind: "marker", text: found.marker });
      this.#held = this.#held.slice(found.at + found.marker.length);
    }
    const keep = Math.max(0, ...this.#markers.map((marker) => overlap(this.#held, marker)));
    const certain = this.#held.slice(0, this.#held.length - keep);
    if (certain !== "") segments.push({ kind: "text", text: certain });
    this.#held = this.#held.slice(certain.length);
    return segments;
  }

  /** Returns the held text when no marker followed. */
  flush(): readonly Segment[] {
    const text = this.#held;
    this.#held = "";
    return text === "" ? [] : [{ kind: "text", text }];
  }

  /** The earliest marker; of two at one place the longer. */
  #first(): { readonly at: number; readonly marker: string } | undefined {
    return this.#markers
      .map((marker) => ({ marker, at: this.#held.indexOf(marker) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at || b.marker.length - a.marker.length)[0];
  }
}
