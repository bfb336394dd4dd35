// Reads a stream's frames, validates usage and places it as the ticket requires, and ends a stream above its token limit. A
// chunk that holds only whole frames with output is passed on without a copy. Pure: bytes in, bytes out.
import {
  countPlain,
  doneMark,
  FramePieces,
  frameEnd,
  frameOf,
  isSilent,
  payloadOf,
  readChunk,
} from "../../proto/sse-frames.ts";
import type { Ticket } from "../../proto/ticket.ts";
import {
  allowedFigures,
  type EngineFigures,
  findUsage,
  invalidUsage,
  maxOutput,
  type Price,
  readFigures,
  slackTokens,
  usageText,
  withCost,
  withoutUsage,
  withUsage,
} from "./find-usage.ts";
import { withReasoningContent } from "./reasoning-name.ts";

export const maxFrameBytes = 1024 * 1024;

type Terms = Pick<Ticket, "usage" | "inputTokensBound" | "maxTokens" | "permits" | "units">;

export class UsageFrames {
  contentFrames = 0;
  /** The engine sent usage that the ticket does not allow; it was dropped. */
  hasInvalidUsage = false;
  /** The engine generated more than the ticket allows: the stream ends here, the engine has to be stopped. */
  isCutShort = false;
  figures: EngineFigures | undefined;
  /** [DONE] was read: `tail` holds the last bytes. */
  isDone = false;
  isError = false;

  readonly #terms: Terms;
  readonly #price: Price;
  readonly #maxFrames: number;
  readonly #out: (bytes: Buffer) => void;
  /** A frame whose end has not come yet. */
  readonly #carry = new FramePieces();
  /** JSON of the stream's first chunk; undefined until one came. */
  #first: Buffer | undefined;
  readonly #finished = new Set<number>();
  /** The JSON of the last chunk with a finish reason, without usage; under `merge` it waits for usage. */
  #finish: Buffer | undefined;
  #isHeld = false;
  /** The usage that the held chunk came with. */
  #running: EngineUsage | undefined;
  /** The engine's own chunk of usage alone, without the usage. */
  #extra: Buffer | undefined;
  #usage: EngineUsage | undefined;

  constructor(terms: Terms, price: Price, out: (bytes: Buffer) => void) {
    this.#terms = terms;
    this.#price = price;
    this.#maxFrames = maxOutput(terms) + slackTokens;
    this.#out = out;
  }

  /** Throws RangeError for a frame above 1 MiB and for one that is not a chunk of an answer. */
  push(chunk: Buffer): void {
    if (this.isDone) return;
    if (this.#carry.bytes === 0 && !this.#isHeld && this.#first && this.#countsPlain(chunk)) {
      this.#out(chunk);
      return;
    }
    const bytes = this.#carry.add(chunk);
    if (bytes) this.#split(bytes);
    if (this.#carry.bytes > maxFrameBytes) throw new RangeError("the engine sent a frame above 1 MiB");
  }

  /** A finish reason arrived: the reply is complete even without [DONE]. */
  get isFinished(): boolean {
    return this.#finished.size > 0;
  }

  /** The last chunk with a finish reason. */
  get finish(): Buffer | undefined {
    return this.#finish;
  }

  /** Returns the last bytes: usage, then [DONE]. `counted` is used if the engine sent no usage. */
  tail(counted: EngineFigures): Buffer {
    const usage = this.#priced(this.#usage ?? { text: usageText(counted), figures: counted });
    const done = Buffer.from("data: [DONE]\n\n");
    const wantsChunk = this.#isRunning ? this.#usage === undefined : this.#terms.usage !== "drop";
    if (this.#isHeld) return Buffer.concat([frameOf(withUsage(this.#finish as Buffer, usage)), done]);
    const chunk = wantsChunk ? (this.#extra ?? usageChunk(this.#finish)) : undefined;
    return chunk ? Buffer.concat([frameOf(withUsage(chunk, usage)), done]) : done;
  }

  /** Every chunk carries usage. */
  get #isRunning(): boolean {
    return this.#terms.usage === "continuous" || this.#terms.usage === "continuous_merge";
  }

  remains(): Buffer | undefined {
    return this.#isHeld ? this.#heldFrame() : undefined;
  }

  /** Returns the held chunk in the form of one that is not the last. */
  #heldFrame(): Buffer {
    const finish = this.#finish as Buffer;
    return frameOf(this.#isRunning && this.#running ? withUsage(finish, this.#priced(this.#running)) : finish);
  }

  /** True when the bytes may leave as they are. */
  #countsPlain(bytes: Buffer): boolean {
    const count = countPlain(bytes);
    if (count < 0 || this.contentFrames + count > this.#maxFrames) return false;
    this.contentFrames += count;
    return true;
  }

  #split(bytes: Buffer): void {
    let start = 0;
    /** Frames in [run, start) leave unchanged, as one piece. */
    let run = 0;
    while (!this.isDone) {
      const end = frameEnd(bytes, start);
      if (end < 0) break;
      const frame = bytes.subarray(start, end);
      if (this.#isHeld || !this.#first || !this.#countsPlain(frame)) {
        if (start > run) this.#out(bytes.subarray(run, start));
        this.#place(frame);
        run = end;
      }
      start = end;
    }
    if (start > run) this.#out(bytes.subarray(run, start));
    if (!this.isDone) this.#carry.keep(bytes.subarray(start));
  }

  /** Ends the stream at the limit: every open choice finishes with `length`. */
  #cutShort(): void {
    this.isCutShort = true;
    for (let index = 0; index < this.#terms.permits; index++)
      if (!this.#finished.has(index)) this.#place(frameOf(lengthChunk(this.#first as Buffer, index)));
    this.isDone = true;
  }

  /** Handles a frame that may hold usage, a finish reason or the end, or that arrives while another is held. */
  #place(received: Buffer): void {
    const payload = payloadOf(received);
    if (!payload) {
      if (!isSilent(received)) throw new RangeError(noChunk);
      this.#out(received);
      return;
    }
    const json = withReasoningContent(payload);
    const frame = json === payload ? received : frameOf(json);
    if (json.equals(doneMark)) {
      if (!this.#first) throw new RangeError("the model server sent an answer without content");
      this.isDone = true;
      return;
    }
    const chunk = readChunk(json);
    if (!chunk) throw new RangeError(noChunk);
    if (chunk.hasOutput) {
      if (this.contentFrames >= this.#maxFrames) {
        this.#cutShort();
        return;
      }
      this.contentFrames += 1;
    }
    if (chunk.isError) this.isError = true;
    for (const index of chunk.finished) this.#finished.add(index);
    const span = findUsage(json);
    const read = this.#readUsage(span ? json.toString("utf8", span.valueStart, span.valueEnd) : "null");
    const figures = read === invalidUsage ? undefined : read;
    const bare = span ? withoutUsage(json, span) : json;
    this.#first ??= bare;
    const isExtra = read !== undefined && chunk.choices === 0 && !chunk.isError;
    if (isExtra && this.#terms.usage !== "continuous") {
      this.#extra = bare;
      return;
    }
    if (this.#isHeld) this.#out(this.#heldFrame());
    this.#isHeld = false;
    if (chunk.isFinish) this.#finish = bare;
    if (chunk.isFinish && this.#terms.usage.endsWith("merge")) {
      this.#isHeld = true;
      this.#running = figures && this.#usage;
    } else if (!figures) this.#out(read === invalidUsage ? frameOf(bare) : frame);
    else this.#out(frameOf(this.#isRunning ? withUsage(bare, this.#priced(this.#usage as EngineUsage)) : bare));
  }

  /** Only what is sent is priced: some engines send usage with every token, and most clients want it once. */
  #priced({ text, figures }: EngineUsage): string {
    return withCost(text, figures, this.#price);
  }

  /** Stores the figures and their text. After invalid usage, later usage is ignored. */
  #readUsage(text: string): EngineFigures | typeof invalidUsage | undefined {
    const own = readFigures(text);
    const figures = this.hasInvalidUsage && own ? invalidUsage : allowedFigures(own, this.#terms);
    if (figures === invalidUsage) {
      this.hasInvalidUsage = true;
      this.figures = undefined;
      this.#usage = undefined;
    }
    if (!figures || figures === invalidUsage) return figures;
    this.figures = figures;
    this.#usage = { text: figures === own ? text : usageText(figures), figures };
    return figures;
  }
}

interface EngineUsage {
  /** JSON as the engine wrote it, or of the figures that are billed. */
  readonly text: string;
  readonly figures: EngineFigures;
}

const noChunk = "the model server sent an event that is no part of an answer";

interface FirstChunk {
  readonly choices?: readonly { readonly delta?: unknown }[];
}

/** A chunk like the stream's first that ends one choice. */
function lengthChunk(first: Buffer, index: number): Buffer {
  const chunk = JSON.parse(first.toString()) as FirstChunk;
  const part = chunk.choices?.[0]?.delta === undefined ? { text: "" } : { delta: {} };
  return Buffer.from(JSON.stringify({ ...chunk, choices: [{ index, ...part, finish_reason: "length" }] }));
}

/** Returns a chunk that holds only usage, made from the engine's last chunk. */
function usageChunk(finish: Buffer | undefined): Buffer | undefined {
  if (!finish) return undefined;
  return Buffer.from(JSON.stringify({ ...(JSON.parse(finish.toString()) as object), choices: [] }));
}
