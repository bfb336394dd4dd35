// Reads a stream's frames only where usage may stand, and puts usage where the ticket wants it. A chunk of whole frames
// without `"usage"`, a finish reason or [DONE] leaves as it came, uncopied. Pure: bytes in, bytes out.
import type { TokenRates } from "../../proto/money.ts";
import type { UsagePlacement } from "../../proto/ticket.ts";
import {
  type EngineFigures,
  findUsage,
  readFigures,
  usageText,
  withCost,
  withoutUsage,
  withUsage,
} from "./find-usage.ts";
import { countFrames, frameEnd, frameOf, isPlain, payloadOf, readChunk } from "./sse-frames.ts";

export const maxFrameBytes = 1024 * 1024;
const newline = 10;

export class UsageFrames {
  /** Frames that carried generated text. */
  contentFrames = 0;
  figures: EngineFigures | undefined;
  /** [DONE] was read: `tail` holds the last bytes. */
  isDone = false;
  /** A finish reason came: the answer is whole even if [DONE] does not come. */
  isFinished = false;
  /** The engine itself sent an error frame. */
  isError = false;

  readonly #placement: UsagePlacement;
  readonly #rates: TokenRates;
  readonly #out: (bytes: Buffer) => void;
  /** A frame whose end has not come yet. */
  #carry: Buffer[] = [];
  #carryBytes = 0;
  #frames = 0;
  /** The JSON of the last chunk with a finish reason, without usage; under `merge` it waits for usage. */
  #finish: Buffer | undefined;
  #isHeld = false;
  /** The usage that the held chunk came with. */
  #running: string | undefined;
  /** The engine's own chunk of usage alone, without the usage. */
  #extra: Buffer | undefined;
  #usage: string | undefined;

  /** `out` is called with what may leave, in order. */
  constructor(placement: UsagePlacement, rates: TokenRates, out: (bytes: Buffer) => void) {
    this.#placement = placement;
    this.#rates = rates;
    this.#out = out;
  }

  /** Throws RangeError for a frame above 1 MiB. */
  push(chunk: Buffer): void {
    if (this.isDone) return;
    if (this.#carryBytes === 0 && !this.#isHeld && isPlain(chunk)) {
      this.#countPlain(chunk);
      this.#out(chunk);
      return;
    }
    // Joined only when a frame may have ended: a frame that trickles in is not copied once per piece.
    if (this.#carryBytes > 0 && chunk.indexOf(newline) < 0) this.#keep(chunk);
    else this.#split(this.#join(chunk));
  }

  /** The last bytes: usage where it belongs, then [DONE]. `counted` stands in for an engine that gave no usage. */
  tail(counted: EngineFigures): Buffer {
    const usage = this.#usage ?? withCost(usageText(counted), counted, this.#rates);
    const done = Buffer.from("data: [DONE]\n\n");
    const wantsChunk = this.#isRunning ? this.#usage === undefined : this.#placement !== "drop";
    if (this.#isHeld) return Buffer.concat([frameOf(withUsage(this.#finish as Buffer, usage)), done]);
    const chunk = wantsChunk ? (this.#extra ?? usageChunk(this.#finish)) : undefined;
    return chunk ? Buffer.concat([frameOf(withUsage(chunk, usage)), done]) : done;
  }

  /** Usage stands on every chunk. */
  get #isRunning(): boolean {
    return this.#placement === "continuous" || this.#placement === "continuous_merge";
  }

  /** What is held back, for a stream that breaks. */
  remains(): Buffer | undefined {
    return this.#isHeld ? this.#heldFrame() : undefined;
  }

  /** The chunk held back, as one that is not the last. */
  #heldFrame(): Buffer {
    const finish = this.#finish as Buffer;
    return frameOf(this.#isRunning && this.#running ? withUsage(finish, this.#running) : finish);
  }

  #countPlain(chunk: Buffer): void {
    this.contentFrames += countFrames(chunk, this.#frames);
    this.#frames += 1;
  }

  #keep(bytes: Buffer): void {
    this.#carry.push(bytes);
    this.#carryBytes += bytes.length;
    if (this.#carryBytes > maxFrameBytes) throw new RangeError("the engine sent a frame above 1 MiB");
  }

  #join(chunk: Buffer): Buffer {
    if (this.#carryBytes === 0) return chunk;
    const bytes = Buffer.concat([...this.#carry, chunk]);
    this.#carry = [];
    this.#carryBytes = 0;
    return bytes;
  }

  #split(bytes: Buffer): void {
    let start = 0;
    /** Frames in [run, start) leave unchanged, as one piece. */
    let run = 0;
    while (!this.isDone) {
      const end = frameEnd(bytes, start);
      if (end < 0) break;
      const frame = bytes.subarray(start, end);
      if (!this.#isHeld && isPlain(frame)) this.#countPlain(frame);
      else {
        if (start > run) this.#out(bytes.subarray(run, start));
        this.#place(frame);
        run = end;
      }
      start = end;
    }
    if (start > run) this.#out(bytes.subarray(run, start));
    if (start < bytes.length && !this.isDone) this.#keep(bytes.subarray(start));
  }

  /** A frame that may hold usage, a finish reason or the end, or that comes while another is held. */
  #place(frame: Buffer): void {
    const json = payloadOf(frame);
    if (!json) {
      this.#out(frame);
      return;
    }
    if (json.equals(doneMark)) {
      this.isDone = true;
      return;
    }
    const chunk = readChunk(json);
    if (chunk.hasText) this.contentFrames += 1;
    if (chunk.isError) this.isError = true;
    if (chunk.isFinish) this.isFinished = true;
    const span = findUsage(json);
    const text = span ? json.toString("utf8", span.valueStart, span.valueEnd) : "null";
    const figures = readFigures(text);
    if (figures) {
      this.figures = figures;
      this.#usage = withCost(text, figures, this.#rates);
    }
    const bare = span ? withoutUsage(json, span) : json;
    const isExtra = figures !== undefined && chunk.choices === 0 && !chunk.isError;
    if (isExtra && this.#placement !== "continuous") {
      this.#extra = bare;
      return;
    }
    if (this.#isHeld) this.#out(this.#heldFrame());
    this.#isHeld = false;
    if (chunk.isFinish) this.#finish = bare;
    if (chunk.isFinish && this.#placement.endsWith("merge")) {
      this.#isHeld = true;
      this.#running = figures && this.#usage;
    } else if (!figures) this.#out(frame);
    else this.#out(frameOf(this.#isRunning ? withUsage(bare, this.#usage as string) : bare));
  }
}

const doneMark = Buffer.from("[DONE]");

/** A chunk of usage alone, made of the last chunk the engine sent. */
function usageChunk(finish: Buffer | undefined): Buffer | undefined {
  if (!finish) return undefined;
  return Buffer.from(JSON.stringify({ ...(JSON.parse(finish.toString()) as object), choices: [] }));
}
