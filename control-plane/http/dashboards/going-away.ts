// The way from a dashboard's WebSocket to the browser. When this control plane stops, the browser is told so (1001) where the
// next frame would begin: a page that hears it comes again at once, and meets another replica. So it is where the dashboard's own
// end of the connection is gone without a word: its program died, or its host's agent stops.
import { Transform, type TransformCallback } from "node:stream";
import { WebSocketFrames } from "./web-socket-frames.ts";

/** One frame as servers send it: closing, two bytes, 1001. */
const goingAway = Buffer.from([0x88, 0x02, 0x03, 0xe9]);

export class GoingAway extends Transform {
  readonly #frames = new WebSocketFrames();
  #state: "passes" | "leaves" | "left" = "passes";

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#state === "passes") {
      this.#frames.take(chunk);
      this.push(chunk);
    } else if (this.#state === "leaves") {
      const rest = this.#frames.takeRest(chunk);
      if (rest > 0) this.push(chunk.subarray(0, rest));
      this.#leaveIfBetween();
    }
    // What the dashboard goes on to say nobody may hear behind a closing frame; unread it would keep the answer to that from it.
    done();
  }

  override _flush(done: TransformCallback): void {
    if (this.#state === "passes") this.#leaveIfBetween();
    done();
  }

  /** Nothing more passes behind the frame that has begun. */
  leave(): void {
    if (this.#state !== "passes" || this.writableEnded || this.destroyed) return;
    this.#state = "leaves";
    this.#leaveIfBetween();
  }

  #leaveIfBetween(): void {
    if (!this.#frames.isBetween) return;
    this.#state = "left";
    // Where the dashboard has closed already, the browser knows.
    if (!this.#frames.hasClosed) this.push(goingAway);
  }
}
