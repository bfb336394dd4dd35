// Counts the frames of a stream with generated output. A broken response costs at most the delivered part, so a frame counts once
// it was passed on completely; the role, the finish reason, usage, errors and comments do not count.
import { countPlain, frameEnd, isPlain, payloadOf, readChunk } from "../../proto/sse-frames.ts";

const newline = 10;
const letterD = 100;
/** An agent sends no larger frame. What follows a larger one is not counted. */
const maxFrameBytes = 2 * 1024 * 1024;

export class OutputCounter {
  /** Frames with output that were passed on completely. */
  frames = 0;
  /** Part of a data frame was passed on: another instance must not respond any more. */
  hasData = false;
  /** Incomplete frame. */
  #parts: Buffer[] = [];
  #bytes = 0;

  push(chunk: Buffer): void {
    if (this.#bytes > maxFrameBytes || chunk.length === 0) return;
    if (this.#bytes === 0 && isPlain(chunk)) {
      const count = countPlain(chunk);
      if (count > 0) this.hasData = true;
      if (count >= 0) {
        this.frames += count;
        return;
      }
    }
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    // Joined only when a frame may have ended, so that a frame in many pieces is not copied once per piece.
    if (chunk.indexOf(newline) >= 0) this.#split();
    else if (!this.hasData) this.hasData = (this.#parts[0] as Buffer)[0] === letterD;
  }

  #split(): void {
    const bytes = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts);
    let start = 0;
    for (let end = frameEnd(bytes, start); end >= 0; end = frameEnd(bytes, start)) {
      this.#count(bytes.subarray(start, end));
      start = end;
    }
    const rest = bytes.subarray(start);
    this.#parts = rest.length === 0 ? [] : [rest];
    this.#bytes = rest.length;
    this.hasData ||= rest[0] === letterD;
  }

  #count(frame: Buffer): void {
    const json = payloadOf(frame);
    if (!json) return;
    this.hasData = true;
    if (readChunk(json)?.hasOutput) this.frames += 1;
  }
}
