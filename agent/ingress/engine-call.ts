// The engine's side of one request: bytes in by undici's callbacks, no stream objects. Stops listening at the first of
// whole answer, break and abort; `closed` comes once more, when the engine is rid of the request.
import type { Dispatcher, Pool } from "undici";
import type { UnitCounts } from "../../proto/money.ts";
import { decodeUnits, unitsHeader } from "../../proto/usage.ts";
import { isBinary } from "./engine-paths.ts";
import type { PassedBytes } from "./passed-bytes.ts";
import type { UsageFrames } from "./usage-frames.ts";

type Controller = Dispatcher.DispatchController;

export interface EngineListener {
  /** Response headers of a stream: where its bytes go. */
  streaming(): UsageFrames;
  /** Response headers of audio or the like: where its bytes go. */
  passing(contentType: string): PassedBytes;
  /** Bytes came; `frames` of them carried text. */
  heard(frames: number): void;
  /** [DONE], or the end after a finish reason. */
  streamed(frames: UsageFrames): void;
  /** The last of them came. `units`: the engine's own word of what it did. */
  passed(bytes: PassedBytes, units: UnitCounts | undefined): void;
  answered(status: number, contentType: string, body: Buffer, units: UnitCounts | undefined): void;
  /** The answer is not whole and will not be. */
  broke(message: string, cause?: Error): void;
  closed(): void;
}

/** What is above it no gateway takes for an answer. */
const mostStatus = 599;

export class EngineCall implements Dispatcher.DispatchHandler {
  /** Nothing more comes from the engine. */
  isClosed = false;
  readonly #listener: EngineListener;
  readonly #maxAnswerBytes: number;
  readonly #passesEvents: boolean;
  #controller: Controller | undefined;
  #isOver = false;
  #status = 0;
  #contentType = "application/json";
  #frames: UsageFrames | undefined;
  #passing: PassedBytes | undefined;
  #units: UnitCounts | undefined;
  #parts: Buffer[] = [];
  #bytes = 0;

  /** `passesEvents`: events carry no tokens (speech, transcripts) and pass as audio does. */
  constructor(listener: EngineListener, maxAnswerBytes: number, passesEvents: boolean) {
    this.#listener = listener;
    this.#maxAnswerBytes = maxAnswerBytes;
    this.#passesEvents = passesEvents;
  }

  /** Bytes of the request went out: the engine may have worked on it. */
  get wasSent(): boolean {
    return this.#controller !== undefined;
  }

  start(pool: Pool, path: string, headers: string[], body: Buffer): void {
    pool.dispatch({ method: "POST", path, headers, body }, this);
  }

  /** Closes the connection, which tells the engine to stop. */
  abort(why: string): void {
    this.#isOver = true;
    this.#controller?.abort(new Error(why));
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#isOver) controller.abort(new Error("cut before it was sent"));
  }

  onResponseStart(_: Controller, status: number, headers: Record<string, string | string[] | undefined>): void {
    if (status < 200 || this.#isOver) return;
    this.#status = status > mostStatus ? 502 : status;
    this.#contentType = String(headers["content-type"] ?? "application/json");
    this.#readUnits(headers[unitsHeader]);
    if (status >= 300) return;
    const hasEvents = this.#contentType.startsWith("text/event-stream");
    if (hasEvents && !this.#passesEvents) this.#frames = this.#listener.streaming();
    else if (hasEvents || isBinary(this.#contentType)) this.#passing = this.#listener.passing(this.#contentType);
  }

  onResponseData(_: Controller, chunk: Buffer): void {
    if (this.#isOver) return;
    const frames = this.#frames;
    if (this.#passing) {
      this.#listener.heard(0);
      this.#passing.push(chunk);
      return;
    }
    if (!frames) {
      this.#listener.heard(0);
      this.#parts.push(chunk);
      this.#bytes += chunk.length;
      if (this.#bytes > this.#maxAnswerBytes) this.#break("the model server's answer is too large");
      return;
    }
    const before = frames.contentFrames;
    try {
      frames.push(chunk);
    } catch (error) {
      this.#break((error as Error).message);
      return;
    }
    this.#listener.heard(frames.contentFrames - before);
    if (!frames.isDone) return;
    this.#isOver = true;
    this.#listener.streamed(frames);
  }

  onResponseEnd(_: Controller, trailers: Record<string, string | string[] | undefined>): void {
    const frames = this.#frames;
    this.#readUnits(trailers[unitsHeader]);
    if (!this.#isOver && frames && !frames.isFinished)
      this.#break("the model server ended its answer early; send it again");
    else if (!this.#isOver) {
      this.#isOver = true;
      if (frames) this.#listener.streamed(frames);
      else if (this.#passing) this.#listener.passed(this.#passing, this.#units);
      else this.#listener.answered(this.#status, this.#contentType, this.#takeBody(), this.#units);
    }
    this.#close();
  }

  onResponseError(_: Controller, error: Error): void {
    if (!this.#isOver) this.#break("the model server broke off the answer; send it again", error);
    this.#close();
  }

  #readUnits(header: string | string[] | undefined): void {
    if (typeof header === "string") this.#units = decodeUnits(header);
  }

  #takeBody(): Buffer {
    const body = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts);
    this.#parts = [];
    return body;
  }

  #break(message: string, cause?: Error): void {
    this.abort(message);
    this.#listener.broke(message, cause);
  }

  #close(): void {
    this.isClosed = true;
    this.#listener.closed();
  }
}
