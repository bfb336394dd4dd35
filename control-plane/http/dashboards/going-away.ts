// Stream from a dashboard's WebSocket to the browser. When this control plane stops, it sends a closing frame (1001) between two
// frames: the page reconnects at once and reaches another replica. It does the same when the dashboard's connection ends without
// a closing frame, because its program died or its host's agent stops.
import { Transform, type TransformCallback } from "node:stream";
import { WebSocketFrames } from "./web-socket-frames.ts";

/** A server's closing frame with the status 1001. */
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
    // Nothing may follow a closing frame, so later data is dropped. It is still read, because the dashboard's reply follows it.
    done();
  }

  override _flush(done: TransformCallback): void {
    if (this.#state === "passes") this.#leaveIfBetween();
    done();
  }

  /** Ends the stream after the current frame. */
  leave(): void {
    if (this.#state !== "passes" || this.writableEnded || this.destroyed) return;
    this.#state = "leaves";
    this.#leaveIfBetween();
  }

  #leaveIfBetween(): void {
    if (!this.#frames.isBetween) return;
    this.#state = "left";
    // The dashboard may have sent a closing frame already.
    if (!this.#frames.hasClosed) this.push(goingAway);
  }
}
