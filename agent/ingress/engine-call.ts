// The engine's side of one request: bytes in by undici's callbacks, no stream objects. Stops listening at the first of
// whole answer, break and abort; `closed` follows, when the engine has released the request.
import type { Dispatcher, Pool } from "undici";
import { BytePieces } from "../../proto/byte-pieces.ts";
import { decodeUnits, unitsHeader } from "../../proto/usage.ts";
import { type Events, isBinary } from "./engine-paths.ts";
import { invalidUsage } from "./find-usage.ts";
import type { PassedBytes } from "./passed-bytes.ts";
import type { ReportedUnits } from "./unit-answer.ts";
import type { UsageFrames } from "./usage-frames.ts";

type Controller = Dispatcher.DispatchController;

export interface EngineListener {
  streaming(): UsageFrames;
  /** Response headers of audio or another raw answer arrived; returns the destination of its bytes. */
  passing(contentType: string): PassedBytes;
  /** Bytes arrived; `frames`: count of those frames that carried text. */
  heard(frames: number): void;
  /** [DONE], or the end after a finish reason. */
  streamed(frames: UsageFrames): void;
  /** The last bytes arrived. `units`: figures that the engine reported. */
  passed(bytes: PassedBytes, units: ReportedUnits): void;
  /** `retryAfter`: that header of a refusal. */
  answered(status: number, contentType: string, body: Buffer, units: ReportedUnits, retryAfter?: string): void;
  /** The answer is incomplete and stays so. */
  broke(message: string, cause?: Error): void;
  /** One of the calls that end the answer threw. Must not throw. */
  failed(error: unknown): void;
  closed(): void;
}

/** Statuses that are not a reply to a request: redirects, and those that no gateway accepts. */
const isNoReply = (status: number) => (status >= 300 && status < 400) || status > 599;

/** In seconds; a date is converted. Undefined: absent or malformed. */
function retryAfterOf(value: string | string[] | undefined): string | undefined {
  if (typeof value !== "string") return undefined;
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : Math.ceil((Date.parse(value) - Date.now()) / 1000);
  return seconds >= 0 ? String(seconds) : undefined;
}

export class EngineCall implements Dispatcher.DispatchHandler {
  /** The engine sends nothing more. */
  isClosed = false;
  readonly #listener: EngineListener;
  readonly #maxAnswerBytes: number;
  readonly #events: Events;
  #controller: Controller | undefined;
  #isOver = false;
  #status = 0;
  #contentType = "application/json";
  #retryAfter: string | undefined;
  #frames: UsageFrames | undefined;
  #passing: PassedBytes | undefined;
  #units: ReportedUnits;
  readonly #body = new BytePieces();

  /** `events`: those without tokens (speech, transcripts) pass like audio; a complete reply has none. */
  constructor(listener: EngineListener, maxAnswerBytes: number, events: Events) {
    this.#listener = listener;
    this.#maxAnswerBytes = maxAnswerBytes;
    this.#events = events;
  }

  /** Bytes of the request were sent: the engine may have worked on it. */
  get wasSent(): boolean {
    return this.#controller !== undefined;
  }

  start(pool: Pool, path: string, headers: string[], body: Buffer): void {
    pool.dispatch({ method: "POST", path, headers, body }, this);
  }

  /** Closes the connection; the engine then stops. */
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
    if (isNoReply(status)) {
      this.#break(`the model server replied with status ${status}`);
      return;
    }
    this.#status = status;
    this.#contentType = String(headers["content-type"] ?? "application/json");
    this.#readUnits(headers[unitsHeader]);
    if (status >= 300) {
      this.#retryAfter = retryAfterOf(headers["retry-after"]);
      return;
    }
    const hasEvents = this.#contentType.startsWith("text/event-stream");
    if (hasEvents && this.#events === "refused")
      this.#break("the model server streamed a reply to a request without a stream");
    else if (hasEvents && this.#events === "tokens") this.#frames = this.#listener.streaming();
    else if (hasEvents || isBinary(this.#contentType)) this.#passing = this.#listener.passing(this.#contentType);
  }

  onResponseData(_: Controller, chunk: Buffer): void {
    if (this.#isOver) return;
    const frames = this.#frames;
    if (this.#passing) {
      if (chunk.length > 0 && !this.#passing.mayBegin(chunk)) {
        this.#break("the model server sent events that are none");
        return;
      }
      this.#listener.heard(0);
      this.#passing.push(chunk);
      return;
    }
    if (!frames) {
      this.#listener.heard(0);
      this.#body.add(chunk);
      if (this.#body.bytes > this.#maxAnswerBytes) this.#break("the model server's answer is too large");
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
    if (frames.isCutShort) this.abort("it generated more than the request allows");
    this.#end(() => this.#listener.streamed(frames));
  }

  onResponseEnd(_: Controller, trailers: Record<string, string | string[] | undefined>): void {
    const frames = this.#frames;
    this.#readUnits(trailers[unitsHeader]);
    if (!this.#isOver && frames && !frames.isFinished && !frames.isError)
      this.#break("the model server ended its answer early; send it again");
    else if (!this.#isOver) this.#end(() => this.#deliver(frames));
    this.#close();
  }

  onResponseError(_: Controller, error: Error): void {
    if (!this.#isOver) this.#break("the model server broke off the answer; send it again", error);
    this.#close();
  }

  #readUnits(header: string | string[] | undefined): void {
    // An engine without counted output sends an empty header.
    if (typeof header === "string" && header !== "") this.#units = decodeUnits(header) ?? invalidUsage;
  }

  #deliver(frames: UsageFrames | undefined): void {
    if (frames) this.#listener.streamed(frames);
    else if (this.#passing) this.#listener.passed(this.#passing, this.#units);
    else this.#listener.answered(this.#status, this.#contentType, this.#body.take(), this.#units, this.#retryAfter);
  }

  #break(message: string, cause?: Error): void {
    this.abort(message);
    this.#end(() => this.#listener.broke(message, cause));
  }

  /** After an exception nothing else would end the request before its deadline: the engine sends no more. */
  #end(end: () => void): void {
    this.#isOver = true;
    try {
      end();
    } catch (error) {
      this.#listener.failed(error);
    }
  }

  #close(): void {
    this.isClosed = true;
    this.#listener.closed();
  }
}
