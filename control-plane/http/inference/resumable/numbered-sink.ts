// A client's side of a resumable stream: gives each event its number as id, and sends those after the client's last.
import type { ServerResponse } from "node:http";
import type { RequestState } from "../../core/request-state.ts";
import { ClientSink } from "../client-sink.ts";

export class NumberedSink extends ClientSink {
  #number = 0;
  readonly #after: number;

  /** `after`: number of the last event that the client has. */
  constructor(res: ServerResponse, state: RequestState, after: number) {
    super(res, state);
    this.#after = after;
  }

  /** `chunk`: whole events and comments. */
  override write(chunk: Buffer): void {
    let numbered = "";
    for (const frame of chunk.toString().split("\n\n")) {
      if (frame === "") continue;
      if (frame.startsWith(":")) numbered += `${frame}\n\n`;
      else if (++this.#number > this.#after) numbered += `id: ${this.#number}\n${frame}\n\n`;
    }
    if (numbered !== "") super.write(Buffer.from(numbered));
  }
}
