// Counts the frames of a stream with generated output. A broken response costs at most the delivered part, so a frame counts once
// it was passed on completely; the role, the finish reason, usage, errors and comments do not count.
import { countPlain, doneMark, FramePieces, payloadOf, readChunk } from "../../proto/sse-frames.ts";

const letterD = 100;
/** An agent sends no larger frame. What follows a larger one is not counted. */
const maxFrameBytes = 2 * 1024 * 1024;

export class OutputCounter {
  /** Frames with output that were passed on completely. */
  frames = 0;
  /** Part of a data frame was passed on: another instance must not respond any more. */
  hasData = false;
  /** Incomplete frame. */
  readonly #pieces = new FramePieces();

  push(chunk: Buffer): void {
    if (this.#pieces.bytes > maxFrameBytes || chunk.length === 0) return;
    if (this.#pieces.bytes === 0 && this.#countsPlain(chunk)) return;
    if (this.#pieces.bytes === 0) this.hasData ||= chunk[0] === letterD;
    const rest = this.#pieces.split(chunk, (frame) => this.#count(frame));
    this.hasData ||= rest?.[0] === letterD;
  }

  /** False when a frame needs to be parsed. */
  #countsPlain(bytes: Buffer): boolean {
    const count = countPlain(bytes);
    if (count < 0) return false;
    this.frames += count;
    this.hasData ||= count > 0;
    return true;
  }

  #count(frame: Buffer): void {
    if (this.#countsPlain(frame)) return;
    const json = payloadOf(frame);
    if (!json) return;
    this.hasData = true;
    // Not JSON: the error of a parser costs as much as ten frames.
    if (json.equals(doneMark)) return;
    if (readChunk(json)?.hasOutput) this.frames += 1;
  }
}
